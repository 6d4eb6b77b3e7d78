"""Suite files: the YAML of shipped suites, overrides of dotted keys (`--set`, scales), and the line of every key."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import resources
from pathlib import Path
from typing import Any, TypeAlias

import yaml

from holdfast.options.yaml_text import load_yaml
from holdfast.registry import nearest

FOLDER = "benchmark/suites"  # of shipped suites, in this package

KeyPath: TypeAlias = tuple[str | int, ...]  # of a value in the file: ("streams", 0, "severity")


class SuiteError(ValueError):
    """A suite cannot be run; the message names the line, the problem and the nearest valid word."""


def suite_names() -> list[str]:
    """Return the names of the suites in this package."""
    files = (resources.files("holdfast") / FOLDER).iterdir()
    return sorted(file.name.removesuffix(".yaml") for file in files if file.name.endswith(".yaml"))


def shipped_text(name: str) -> str:
    """Return the YAML of a suite in this package."""
    return (resources.files("holdfast") / FOLDER / f"{name}.yaml").read_text()


def named_text(name_or_path: str | Path) -> tuple[str, str]:
    """Return the YAML of a suite in this package or of a file, and the name of its file for messages."""
    path, known = Path(name_or_path), suite_names()
    if path.suffix in (".yaml", ".yml"):
        if not path.is_file():
            raise SuiteError(f"there is no suite file {path}; name a file or one of: {', '.join(known)}")
        return path.read_text(), str(path)
    if str(name_or_path) not in known:
        raise SuiteError(f"unknown suite {str(name_or_path)!r}; {nearest(str(name_or_path), known)}")
    return shipped_text(str(name_or_path)), f"{name_or_path}.yaml"


def suite_content(name_or_path: str | Path) -> dict[str, Any]:
    """Return the content of a suite in this package or of a file, unchecked."""
    content = load_yaml(named_text(name_or_path)[0])
    if not isinstance(content, dict):
        raise SuiteError(f"{name_or_path}: a suite is a mapping with name, models, streams and recipes")
    return content


def scale_names(name_or_path: str | Path) -> list[str]:
    """Return the scales of a suite; none if it cannot be read, which `load_suite` then explains.

    >>> scale_names("ccc")
    ['smoke', 'small', 'speeds', 'paper', 'paper-shards', 'paper-matrices']
    """
    try:
        return list(suite_content(name_or_path).get("scales") or {})
    except (OSError, ValueError, yaml.YAMLError):
        return []


def lines_of(node: yaml.Node | None, path: KeyPath = ()) -> Iterator[tuple[KeyPath, int]]:
    """Yield the line of every key and list entry below a YAML node."""
    if node is None:
        return
    yield path, node.start_mark.line + 1
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            inner = (*path, key.value)
            yield inner, key.start_mark.line + 1
            yield from ((below, line) for below, line in lines_of(value, inner) if below != inner)
    elif isinstance(node, yaml.SequenceNode):
        for index, value in enumerate(node.value):
            yield from lines_of(value, (*path, index))


def line_of(path: KeyPath, lines: Mapping[KeyPath, int]) -> int | None:
    """Return the line of a key, or of the nearest key around it that the file has.

    >>> line_of(("seeds", 3), {(): 1, ("seeds",): 7})
    7
    """
    return next((lines[path[:end]] for end in range(len(path), -1, -1) if path[:end] in lines), None)


def scaled(content: dict[str, Any], scale: str | None, overrides: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Apply the overrides of one of a suite's scales, and then these, to its content, and return it."""
    scales = content.get("scales") or {}
    if scale is not None and scale not in scales:
        raise SuiteError(f"this suite has no scale {scale!r}; {nearest(scale, scales)}")
    for key, value in {**(scales.get(scale) or {}), **(overrides or {})}.items():
        override(content, key, value)
    return content


def override(content: Any, dotted: str, value: Any) -> None:
    """Set one key, or with `*` that of each entry of a list, or with a slice, such as `:-1`, that of some.

    >>> content = {"streams": [{"severity": 5}, {"severity": 5}]}
    >>> override(content, "streams.*.severity", 3)
    >>> override(content, "streams.:-1.severity", 4)
    >>> content
    {'streams': [{'severity': 4}, {'severity': 3}]}
    """
    first, _, rest = dotted.partition(".")
    key = int(first) if first.isdigit() else first
    try:
        if first == "*" or ":" in first:
            start, _, stop = first.replace("*", ":").partition(":")
            for index in range(len(content))[slice(int(start or 0), int(stop) if stop else None)]:
                override(content, f"{index}.{rest}" if rest else str(index), value)
        elif rest:
            override(content[key], rest, value)
        elif isinstance(content, list) and not isinstance(key, int):
            raise TypeError(key)
        else:
            content[key] = value
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise SuiteError(f"--set {dotted}: the suite has no such key; write e.g. streams.0.severity=3") from error
