"""Read YAML in which `1e-3` is a number, as in YAML 1.2, and not text, as in YAML 1.1."""

from __future__ import annotations

import re
from typing import Any

import yaml

MOST_NODES = 100_000  # values of one text, with its aliases written out


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
    return content_of(compose(text))


def content_of(node: yaml.Node | None) -> Any:
    """Return the content of composed nodes; merge keys are written out in them."""
    return None if node is None else Loader("").construct_document(node)


def compose(text: str) -> yaml.Node | None:
    """Return the nodes of YAML text, with their lines; aliases that repeat more than can be meant are refused."""
    try:
        node: yaml.Node | None = yaml.compose(text, Loader)
        size = 0 if node is None else _size(node, {})
    except RecursionError as error:
        raise yaml.YAMLError("it is nested too deeply, or an alias holds itself") from error
    if size > MOST_NODES:
        raise yaml.YAMLError(f"with its aliases written out it has {size} values, over {MOST_NODES}; use fewer aliases")
    return node


def _size(node: yaml.Node, known: dict[yaml.Node, int]) -> int:
    """Return the number of values of a node with all aliases written out; each anchor is counted once."""
    if node not in known:
        below = [part for pair in node.value for part in pair] if isinstance(node, yaml.MappingNode) else node.value
        known[node] = 1 + sum(_size(part, known) for part in below if isinstance(part, yaml.Node))
    return known[node]
