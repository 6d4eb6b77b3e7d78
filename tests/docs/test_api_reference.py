"""Every public name has an entry in the reference, and every parameter a meaning."""

from __future__ import annotations

import importlib
import inspect
import re
import runpy
from pathlib import Path
from typing import Any

import pytest

import holdfast

API = Path(__file__).resolve().parents[2] / "docs" / "api"
ROOMS = (
    "methods",
    "estimators",
    "recovery",
    "streams",
    "corruptions",
    "data",
    "models",
    "recipes",
    "testing",
    "report",
)
pytestmark = pytest.mark.skipif(not API.exists(), reason="the documents are not beside the tests")


def public() -> dict[str, object]:
    """Return the functions and classes of the public packages by name."""
    modules = [
        holdfast,
        *(importlib.import_module(f"holdfast.{room}") for room in ROOMS),
    ]
    things = {name: getattr(module, name) for module in modules for name in module.__all__}
    return {name: thing for name, thing in things.items() if inspect.isclass(thing) or inspect.isfunction(thing)}


def test_every_public_name_is_in_the_reference() -> None:
    entries = re.findall(
        r"^::: holdfast\.(\S+)$", "\n".join(page.read_text() for page in API.glob("*.md")), re.MULTILINE
    )
    assert [name for name in public() if name not in {entry.rsplit(".", 1)[-1] for entry in entries}] == []


@pytest.fixture(scope="module")
def reference() -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the functions that make the tables, and the names of the reference as griffe reads them."""
    griffe = pytest.importorskip("griffe", reason="griffe makes the reference: pip install 'holdfast[docs]'")
    tables = runpy.run_path(str(API.parent / "parameter_tables.py"))
    package = griffe.load("holdfast", search_paths=[str(API.parents[1])])
    return tables, tables["public"](package)


def test_every_parameter_has_a_meaning(reference: tuple[dict[str, Any], dict[str, Any]]) -> None:
    tables, entries = reference
    assert len(entries) > 200
    silent = [
        f"{name}({parameter})"
        for name, thing in entries.items()
        for parameter in tables["parameters"](thing)
        if not tables["meaning"](thing, parameter)
    ]
    assert silent == []


def test_every_meaning_of_a_whole_package_is_needed(reference: tuple[dict[str, Any], dict[str, Any]]) -> None:
    tables, entries = reference
    named = {
        (thing.canonical_path.split(".")[1], thing.name, parameter)
        for thing in entries.values()
        for parameter in tables["parameters"](thing)
    }
    for room, meanings in tables["COMMON"].items():
        for key in meanings:
            assert any(
                room in (package, "everywhere") and key in (parameter, f"{name}.{parameter}")
                for package, name, parameter in named
            ), f"{room}: {key} is the name of no parameter"


def test_a_table_stands_before_the_example(reference: tuple[dict[str, Any], dict[str, Any]]) -> None:
    tables, _ = reference
    text = "Do it.\n\nArgs:\n    a: one.\n\n```pycon\n>>> 1\n```"
    assert tables["with_table"](text, {"a": "one.", "b": "two."}) == (
        "Do it.\n\nArgs:\n    a: one.\n    b: two.\n\n```pycon\n>>> 1\n```"
    )
