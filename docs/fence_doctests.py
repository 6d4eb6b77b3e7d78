"""An extension of griffe: examples in docstrings are shown as code, not as quotations."""

from __future__ import annotations

import re
from typing import Any

import griffe

EXAMPLE = re.compile(r"^>>> .*(?:\n.+)*", re.MULTILINE)  # up to the next empty line


class FenceDoctests(griffe.Extension):
    """Put a fence around each example of a docstring."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Change the docstring of one function or class."""
        if obj.docstring is not None:
            obj.docstring.value = EXAMPLE.sub(lambda example: f"```pycon\n{example.group(0)}\n```", obj.docstring.value)
