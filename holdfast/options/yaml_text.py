"""Read YAML in which `1e-3` is a number, as in YAML 1.2, and not text, as in YAML 1.1."""

from __future__ import annotations

import re
from typing import Any

import yaml

__all__ = ["Loader", "load_yaml"]


class Loader(yaml.SafeLoader):
    """YAML's safe loader with the floats of YAML 1.2 besides its own."""


Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"^[-+]?[0-9]+(\.[0-9]*)?[eE][-+]?[0-9]+$"),
    list("-+0123456789"),
)


def load_yaml(text: str) -> Any:
    """Return the content of YAML text.

    >>> load_yaml("{lr: 1e-3, momentum: 0.9, name: 1e-3x}")
    {'lr': 0.001, 'momentum': 0.9, 'name': '1e-3x'}
    """
    return yaml.load(text, Loader)
