"""Read suites: YAML text to a checked `Suite`; a mistake is reported with its line and the nearest valid word."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ValidationError

from holdfast.benchmark.checks import problems_of
from holdfast.benchmark.collapse import ScriptedCollapse
from holdfast.benchmark.foreign_code import admit_files
from holdfast.benchmark.intruders import ScriptedIntruders
from holdfast.benchmark.schema import Suite
from holdfast.options.own_code import read_file
from holdfast.options.suite_files import KeyPath, SuiteError, line_of, lines_of, named_text, scaled, suite_names
from holdfast.options.yaml_text import compose, content_of
from holdfast.registry import nearest

__all__ = ["SuiteError", "checked", "load_suite", "parse_suite", "suite_names"]


def load_suite(
    name_or_path: str | Path,
    overrides: Mapping[str, Any] | None = None,
    *,
    scale: str | None = None,
    allow_code: bool = False,
) -> Suite:
    """Read a suite by name or from a file; `overrides` set dotted keys, such as `{"streams.0.severity": 3}`.

    The Python files in its `imports` are run only with `allow_code`, or if they were loaded before
    (`holdfast.import_file`).

    Args:
        name_or_path: name of a suite (`holdfast list suites`), or a YAML file.
        overrides: dotted keys with values, such as `{"streams.0.severity": 3}`.
        scale: one of the suite's own sets of overrides, such as `smoke` or `paper`.
        allow_code: whether Python files and functions that the suite names may run.

    >>> load_suite("demo").name
    'demo'
    """
    return parse_suite(*named_text(name_or_path), overrides, scale=scale, allow_code=allow_code)


def parse_suite(
    text: str,
    where: str = "suite",
    overrides: Mapping[str, Any] | None = None,
    *,
    scale: str | None = None,
    allow_code: bool = False,
) -> Suite:
    """Return the checked suite of YAML text; its `imports` are relative to `where`, the path of its file.

    Args:
        text: YAML.
        where: path of the file that it comes from; `imports` are relative to it.
        overrides: dotted keys with values.
        scale: one of the suite's own sets of overrides.
        allow_code: whether Python files and functions that the suite names may run.
    """
    try:
        node = compose(text)
        lines, content = dict(lines_of(node)), content_of(node)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise SuiteError(f"{where}, line {line}: this is not YAML: {error.problem}") from error
    except yaml.YAMLError as error:
        raise SuiteError(f"{where} cannot be read: {error}") from error
    if not isinstance(content, dict):
        raise SuiteError(f"{where}: a suite is a mapping with name, models, streams and recipes")
    content = scaled(content, scale, overrides)
    try:
        suite = Suite.model_validate(content)
    except ValidationError as error:
        path, message = _first_mistake(error)
        raise SuiteError(f"{where}, line {line_of(path, lines)}: {message}") from error
    try:
        admit_files([read_file(Path(where).parent / path) for path in suite.imports], where, allow_code)
    except ValueError as error:
        raise SuiteError(f"{where}, line {line_of(('imports',), lines)}: {error}") from error
    return checked(suite, where, lines)


def checked(suite: Suite, where: str = "suite", lines: Mapping[KeyPath, int] | None = None) -> Suite:
    """Return the suite, or raise for the first name, option or missing data that would stop one of its jobs."""
    for path, problem in problems_of(suite):
        line = line_of(path, lines or {})
        key = ".".join(map(str, path)) if line is None else f"line {line}"
        raise SuiteError(f"{where}, {key}: {problem}")
    return suite


def _first_mistake(error: ValidationError) -> tuple[KeyPath, str]:
    """Return the path of a key that does not fit the schema, and a sentence about it."""
    # An unknown key often explains a missing one, so it is reported first.
    first = min(error.errors(), key=lambda problem: problem["type"] != "extra_forbidden")
    path = first["loc"]
    if first["type"] == "extra_forbidden":
        scripts: dict[str, type[BaseModel]] = {"collapse": ScriptedCollapse, "intruders": ScriptedIntruders}
        known = next((script for key, script in scripts.items() if key in path), Suite)
        return path, f"unknown key {path[-1]!r}; {nearest(str(path[-1]), known.model_fields)}"
    if first["type"] == "value_error":  # a sentence of ours
        return path, str(first["ctx"]["error"])
    return path, f"{'.'.join(str(part) for part in path if part != 'spec')}: {first['msg'].lower()}"
