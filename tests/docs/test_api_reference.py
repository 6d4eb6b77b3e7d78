"""Every public name has an entry in the reference, and every parameter of the larger functions a meaning."""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path

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
MANY = 5  # parameters, from which on a docstring has a list of them
UNLISTED = {  # networks and figures, whose sentence says it all
    *("audio_sheet", "contact_sheet", "walk_strip", "write_walk_gif", "export_shards", "schedule_of", "resolve"),
    *("cifar_resnext", "hubert", "local_file", "small_amaut", "small_conmix", "small_hubert"),
}


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


def test_functions_of_many_parameters_list_them_all() -> None:
    for name, thing in public().items():
        if not inspect.isfunction(thing) or name in UNLISTED:
            continue
        parameters = inspect.signature(thing).parameters.values()
        if len(parameters) < MANY:
            continue
        text = (inspect.getdoc(thing) or "").partition("\nArgs:\n")[2]
        listed = re.findall(r"^    \*{0,2}(\w+): ", text, re.MULTILINE)
        assert listed == [parameter.name for parameter in parameters], f"{thing.__module__}.{name}"
