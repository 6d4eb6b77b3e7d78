"""Writes docs/methods: one page for each method from its class, and a table to choose by.

python docs/build.py
"""

from __future__ import annotations

import inspect
from pathlib import Path

from holdfast.methods import METHODS, Method
from holdfast.recipes import RECIPES, recipe_of
from holdfast.registry import describe, options_of

FOLDER = Path(__file__).parent / "methods"
LEARNING = ("optimizer", "lr", "momentum", "nesterov", "betas", "weight_decay")  # what every method that learns takes


def page(name: str) -> str:
    """Return the page of a method or recipe."""
    recipe = recipe_of(name)
    kind = METHODS[recipe.method]
    return "\n".join(
        [f"# {name}", "", *idea(name, kind), "", *facts(name, kind), "", *options(kind), "", *presets(kind)]
    )


def idea(name: str, kind: type[Method]) -> list[str]:
    """Return what it is, whose it is, and how to call it."""
    recipe = recipe_of(name)
    entry = describe(name, recipe if name in RECIPES else kind)
    text = [entry.summary] if recipe.method != name else (inspect.getdoc(kind) or "").split("\n")
    combined = f"Method `{recipe.method}` with the recovery `{recipe.recovery}`." if name in RECIPES else ""
    source = ", source=[unlabelled_source_inputs]" if kind.needs_source else ""
    call = ["```python", f'model = holdfast.adapt(network, "{name}"{source})', "```"]
    return [*text, "", *([combined, ""] if combined else []), f"Paper: {entry.citation or '–'}", "", *call]


def facts(name: str, kind: type[Method]) -> list[str]:
    """Return what a user wants to know before choosing it."""
    lines = {
        "Answers": f"{kind.predicts} its update on the same batch",
        "Passes per sample": kind.passes,
        "Keeps besides the network": kind.keeps,
        "Needs": needs(kind),
        "Use it when": kind.use_when or "–",
        "It fails when": kind.fails_when or "–",
    }
    return ["| | |", "| --- | --- |", *(f"| {key} | {value} |" for key, value in lines.items())]


def needs(kind: type[Method]) -> str:
    """Return what a network or its owner must have."""
    found = ["BatchNorm layers"] * kind.needs_batch_norm + ["unlabelled source inputs"] * kind.needs_source
    return " and ".join(found) or "any network with normalisation layers"


def options(kind: type[Method]) -> list[str]:
    """Return the options with their defaults."""
    found = {name: option for name, option in options_of(kind).items() if name != "seed"}
    rows = [f"| `{name}` | `{option.default!r}` |" for name, option in found.items() if name not in LEARNING]
    rows += [f"| `{name}` | `{option.default!r}` |" for name, option in found.items() if name in LEARNING]
    return ["## Options", "", "| option | default |", "| --- | --- |", *rows] if rows else []


def presets(kind: type[Method]) -> list[str]:
    """Return the published settings."""
    if not kind.presets:
        return []
    rows = [
        f"| `{name}` | {', '.join(f'`{key}={value!r}`' for key, value in preset.items())} |"
        for name, preset in kind.presets.items()
    ]
    head = "Chosen by the number of classes and the normalisation when `preset` is left out."
    return ["## Presets", "", head, "", "| preset | options |", "| --- | --- |", *rows, ""]


def chooser() -> str:
    """Return the table to choose by."""
    rows = []
    for name in names():
        kind = METHODS[recipe_of(name).method]
        rows.append(f"| [{name}]({name}.md) | {kind.use_when or '–'} | {kind.fails_when or '–'} | {kind.passes} |")
    head = ["# Choosing a method", "", "Made by `docs/build.py` from the classes themselves.", ""]
    return "\n".join(
        [*head, "| method | use it when | it fails when | passes per sample |", "| --- | --- | --- | --- |", *rows, ""]
    )


def names() -> list[str]:
    """Return every method, then every recipe that is not one of them."""
    return [*METHODS.names(), *(name for name in RECIPES if name not in METHODS)]


def pages() -> dict[Path, str]:
    """Return every file with its content."""
    return {FOLDER / "README.md": chooser(), **{FOLDER / f"{name}.md": page(name).rstrip() + "\n" for name in names()}}


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for path, content in pages().items():
        path.write_text(content)
