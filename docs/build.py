"""Write docs/methods: one page per method from its class and a committed result, and a table to choose from.

The curves on the pages, in docs/curves, the catalogue, the pages on the papers and on official code are
written too, and so are the signatures for type checkers, holdfast/signatures.pyi.

`python docs/pages.py build` writes them.
"""

from __future__ import annotations

import inspect
import runpy
import textwrap
from pathlib import Path

from holdfast.commands.catalogue import catalogue
from holdfast.commands.description import Description, Option, describe, list_methods, options_with_meanings
from holdfast.conformance import CASES
from holdfast.conformance.pack import CIFAR
from holdfast.methods import METHODS
from holdfast.recipes import RECIPES
from holdfast.recovery import RECOVERIES
from holdfast.registry import Entry

HERE = Path(__file__).parent
FOLDER = HERE / "methods"
CURVES = runpy.run_path(str(HERE / "curves.py"))
RESULT = CURVES["read"]()
OURS = ("anchor", "blend", "guard", "unitta_auto")
GUIDE = (
    "# Choosing a method",
    "",
    "`holdfast recommend MODEL DATA --scenario …` measures methods on your data and says which to use, if any.",
    "Without measuring:",
    "",
    "| your stream | start with |",
    "| --- | --- |",
    "| unknown, or no weights may be trained | [blend](blend.md), the default of `holdfast.adapt(network, source=…)` |",
    "| large batches of one domain and all classes | [batch_norm](batch_norm.md), then [tent](tent.md) |",
    "| the same for hours or days | [rdumb](rdumb.md), or [eata](eata.md) with source inputs |",
    "| neighbouring samples share a class | [unitta_auto](unitta_auto.md), [note](note.md), [rotta](rotta.md) |",
    "| a network without BatchNorm | [blend](blend.md) with source inputs; [neo](neo.md), [sar](sar.md) |",
    "| a service, with a method that trains | [guard](guard.md) around it |",
    "",
    "Every method, with what its page says (`holdfast.describe(name)` prints the same):",
    "",
)


def page(name: str) -> str:
    """Return the page of a method or recipe."""
    found = describe(name)
    sections = (
        idea(found),
        facts(found),
        CURVES["section"](name, RESULT),
        options("Options", found.options),
        options(f"Options of the recovery `{found.recovery}`", found.recovery_options),
        presets(found),
    )
    return "\n".join([f"# {name}", *("\n".join(["", *section]) for section in sections if section), ""])


def idea(found: Description) -> list[str]:
    """Return the description, the citation and the call."""
    kind = METHODS[found.method]
    text = [found.summary] if found.method != found.name else (inspect.getdoc(kind) or "").split("\n")
    recovery = f" with the recovery `{found.recovery}`" if found.recovery != "never" else " with other defaults"
    recovery = f"Method `{found.method}`{recovery}." if found.name in RECIPES else ""
    source = ", source=[unlabelled_source_inputs]" if kind.needs_source else ""
    citation = found.citation.replace("docs/promise.md", "[the promise](../promise.md)")
    call = ["```python", f'model = holdfast.adapt(network, "{found.name}"{source})', "```"]
    return [*text, "", *([recovery, ""] if recovery else []), f"Paper: {citation or '–'}", "", *call]


def facts(found: Description) -> list[str]:
    """Return the table of cost, requirements, and when to use the method."""
    learns = METHODS[found.method].learns
    lines = {
        "Predicts": f"{found.predicts} its update on the same batch" if learns else "without updates",
        "Passes per sample": found.passes,
        "Keeps besides the network": found.keeps,
        "Needs": found.needs,
        "Use it when": found.use_when or "–",
        "It fails when": found.fails_when or "–",
    }
    return ["| | |", "| --- | --- |", *(f"| {key} | {value} |" for key, value in lines.items())]


def options(title: str, found: tuple[Option, ...]) -> list[str]:
    """Return a table of options: their defaults, and what they mean."""
    rows = [f"| `{option.name}` | `{option.default!r}` | {option.meaning} |" for option in found]
    return [f"## {title}", "", "| option | default | meaning |", "| --- | --- | --- |", *rows] if rows else []


def presets(found: Description) -> list[str]:
    """Return the table of published settings."""
    rows = [
        f"| `{name}` | {', '.join(f'`{key}={value!r}`' for key, value in preset.items())} |"
        for name, preset in found.presets.items()
    ]
    head = "Without `preset`, one is chosen by the number of classes and the kind of normalisation."
    return ["## Presets", "", head, "", "| preset | options |", "| --- | --- |", *rows] if rows else []


def chooser() -> str:
    """Return the table to choose from."""
    rows = [
        f"| [{found.name}]({found.name}.md) | {found.use_when or '–'} | {found.fails_when or '–'} | {found.passes} |"
        for found in map(describe, names())
    ]
    return "\n".join(
        [*GUIDE, "| method | use it when | it fails when | passes per sample |", "| --- | --- | --- | --- |", *rows, ""]
    )


def whole_catalogue() -> str:
    """Return the page that lists everything but methods, which have pages of their own."""
    rooms = {room: entries for room, entries in catalogue().items() if room != "methods"}
    head = [
        "# Catalogue",
        "",
        "Everything that has a name in suites and on the command line; `holdfast list` prints the same.",
        "",
    ]
    return "\n".join([*head, *counted(), *(line for room, entries in rooms.items() for line in room_of(room, entries))])


def room_of(room: str, entries: list[Entry]) -> list[str]:
    """Return the table of one room; that of the recoveries names their options."""
    rows = [f"| `{entry.name}` | {entry.summary} | {entry.citation or '–'} |" for entry in entries]
    table = [f"## {room.capitalize()}", "", "| name | what it is | paper |", "| --- | --- | --- |", *rows, ""]
    if room != "recoveries":
        return table
    found = [(name, option) for name in RECOVERIES.names() for option in options_with_meanings(RECOVERIES[name])]
    rows = [f"| `{name}` | `{option.name}` | `{option.default!r}` | {option.meaning} |" for name, option in found]
    return [*table, "| recovery | option | default | meaning |", "| --- | --- | --- | --- |", *rows, ""]


def names() -> list[str]:
    """Return every method and recipe."""
    return list_methods()


def comparison() -> str:
    """Return the page on official code and other projects, with its list of traces."""
    begin, end = "<!-- traces -->\n", "<!-- end of traces -->"
    before, rest = (HERE / "comparison.md").read_text().split(begin)
    return before + begin + "".join(f"{line}\n" for line in traces()) + end + rest.split(end)[1]


def counted() -> list[str]:
    """Return how many entries each room has, in one table."""
    called = {"data": "data sets"}
    rows = [f"| [{called.get(room, room)}](#{room}) | {len(entries)} |" for room, entries in catalogue().items()]
    rows = [row.replace("(#methods)", "(methods/README.md)") for row in rows]
    return ["| | entries |", "| --- | ---: |", *rows, ""]


def traces() -> list[str]:
    """Return which methods and recipes are compared with recorded outputs of their official code."""
    traced = {case.recipe for case in CASES}
    small = {case.recipe for case in CASES if case.pack is not CIFAR}
    explained = {*OURS, "conmix", "dhauds", "foa_shift", "tda"}
    if explained != set(names()) - traced:
        raise ValueError(f"say in docs/build.py why there is no trace of {sorted(set(names()) - traced - explained)}")
    ours = [f"`{name}`" for name in OURS]
    text = (
        f"`holdfast conformance` compares {len(traced)} of {len(names())} methods and recipes with recorded outputs, "
        f"logit by logit on two streams: most with BatchNorm, {len(small)} with LayerNorm or GroupNorm. There is no "
        f"trace of {', '.join(ours[:-1])} and {ours[-1]}, which are ours; of `dhauds` and `conmix`, which are compared "
        "with recorded losses and steps in `tests/methods`; and of `foa_shift`, whose official code has a "
        "non-commercial licence, and `tda`, whose official code takes CLIP only: these are compared with the published "
        "formulas. The trace of `slr`, which has no official "
        "code, is of a reference written from the published formulas."
    )
    return textwrap.wrap(text, 120, break_long_words=False, break_on_hyphens=False)


def pages() -> dict[Path, str]:
    """Return every file with its content."""
    catalogued = {HERE / "catalogue.md": whole_catalogue(), FOLDER / "README.md": chooser()}
    catalogued[HERE / "comparison.md"] = comparison()
    for name in ("papers", "paper_and_code"):
        catalogued[HERE / f"{name}.md"] = runpy.run_path(str(HERE / f"{name}.py"))["page"]()
    catalogued[HERE.parent / "holdfast" / "signatures.pyi"] = runpy.run_path(str(HERE / "signatures.py"))[
        "signatures"
    ]()
    curves = {HERE / "curves" / f"{name}.svg": CURVES["svg"](name, RESULT) for name in names() if name in RESULT.curves}
    return {**catalogued, **curves, **{FOLDER / f"{name}.md": page(name).rstrip() + "\n" for name in names()}}
