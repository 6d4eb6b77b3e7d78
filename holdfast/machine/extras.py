"""Packages of an extra: imported when they are needed, or an error that says what to install."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def extra(name: str, module: str, sentence: str) -> Any:
    """Return a module of an extra; the `sentence` says what needs it, and ends before the name of what is missing.

    >>> extra("nothing", "json", "this needs").loads("1")
    1
    """
    try:
        return import_module(module)
    except ImportError as error:
        raise ImportError(f'{sentence} {error.name}: pip install "holdfast[{name}]"') from error
