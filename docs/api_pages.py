"""The reference of public packages, from their `__all__`; see build.py. Other pages in docs/api are written by hand."""

from __future__ import annotations

import importlib
import inspect
import sys
from pathlib import Path
from types import ModuleType

FOLDER = Path(__file__).parent / "api"
TITLES = {
    "streams": "Streams",
    "corruptions": "Corruptions",
    "data": "Data sets",
    "models": "Networks",
    "recipes": "Recipes",
    "benchmark": "Benchmarks",
    "report": "Reports",
    "testing": "Checks for your own code",
    "evidence": "Evidence from labels",
    "connect": "Connecting",
}


def page(room: str) -> str:
    """Return the page of a package: its functions, its classes, and the names of its constants."""
    module = importlib.import_module(f"holdfast.{room}")
    things = {name: getattr(module, name) for name in module.__all__}
    functions = [name for name, thing in things.items() if inspect.isfunction(thing)]
    classes = [name for name, thing in things.items() if inspect.isclass(thing)]
    constants = [
        f"`{name}`"
        for name, thing in things.items()
        if name not in (*functions, *classes) and not inspect.ismodule(thing)
    ]
    summary = (module.__doc__ or "").strip().split("\n")[0]
    parts = [f"# {TITLES[room]}", f"`holdfast.{room}`: {summary}"]
    parts += [f"::: {path(module, name)}" for name in sorted(functions) + sorted(classes)]
    parts += [f"## Constants\n\n{', '.join(constants)}"] if constants else []
    return "\n\n".join(parts) + "\n"


def path(module: ModuleType, name: str) -> str:
    """Return the path of a public name; through its own module, if that has the same name and would be shown instead.

    >>> path(importlib.import_module("holdfast.benchmark"), "bench")
    'holdfast.benchmark.bench.bench'
    """
    thing = getattr(module, name)
    return f"{thing.__module__}.{name}" if f"{module.__name__}.{name}" in sys.modules else f"{module.__name__}.{name}"


def pages() -> dict[Path, str]:
    """Return every page with its content."""
    return {FOLDER / f"{room}.md": page(room) for room in TITLES}
