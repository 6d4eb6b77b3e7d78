"""Write docs/methods: one page per method from its class, docs/method_facts.yaml and a committed result.

A table to choose from, the curves on the pages, in docs/curves, the catalogue, the pages on the papers and on official
code are written too, and so are the signatures for type checkers, holdfast/signatures.pyi.

`python docs/pages.py build` writes them.
"""

from __future__ import annotations

import inspect
import json
import re
import runpy
import textwrap
from dataclasses import dataclass
from pathlib import Path

import yaml

from holdfast.commands.catalogue import catalogue
from holdfast.commands.description import Description, Option, describe, list_methods, options_with_meanings
from holdfast.conformance import CASES
from holdfast.conformance.pack import CIFAR
from holdfast.methods import METHODS
from holdfast.options.ranges import LARGEST
from holdfast.recipes import RECIPES
from holdfast.recovery import RECOVERIES
from holdfast.registry import Entry
from holdfast.report.paper_and_code import Difference, differences

HERE = Path(__file__).parent
FOLDER = HERE / "methods"
CURVES = runpy.run_path(str(HERE / "curves.py"))
RESULT = CURVES["read"]()
COSTS = json.loads((HERE.parent / "results" / "step-cost.json").read_text())["measured"]
FOLLOWED = {"code": "the code", "paper": "the paper", "same": "both, which give the same", "ours": "neither"}
SYMBOLS = {  # of equations, by the LaTeX that shows their use
    r"\bp_|p\^|p\)|\bp\b": "p = softmax(z) are the predicted probabilities",
    r"H\(": "H(p) = −Σ p log p is the entropy",
    r"\{B\}": "B is the batch size",
    r"\{C\}": "C is the number of classes",
    r"\\theta_\{?0": "θ are the trained weights and θ₀ their source values",
}
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


@dataclass(frozen=True)
class Paper:
    """A paper with its title and address, and its official code, if there is any."""

    title: str
    url: str
    code: str = ""

    def __str__(self) -> str:
        return f"[{self.title}]({self.url})"


@dataclass(frozen=True)
class Facts:
    """What docs/method_facts.yaml says of a method; its fields are described there."""

    paper: tuple[str, ...]
    idea: str
    equation: tuple[str, ...]
    where: str
    near: dict[str, str]
    differs: tuple[str, ...] = ()


FACTS = yaml.safe_load((HERE / "method_facts.yaml").read_text())
PAPERS = {key: Paper(**entry) for key, entry in FACTS["papers"].items()}
METHOD_FACTS = {name: Facts(**entry) for name, entry in FACTS["methods"].items()}


def page(name: str) -> str:
    """Return the page of a method or recipe."""
    description = describe(name)
    sections = (
        idea(description),
        facts(description),
        equation(name),
        CURVES["section"](name, RESULT),
        details(description),
        options("Options", description.options),
        options(f"Options of the recovery `{description.recovery}`", description.recovery_options),
        presets(description),
        paper_and_code(description),
        alternatives(name),
    )
    return "\n".join([f"# {name}", *("\n".join(["", *section]) for section in sections if section), ""])


def idea(description: Description) -> list[str]:
    """Return the summary, the idea, the paper and the call."""
    source = ", source=[unlabelled_source_inputs]" if METHODS[description.method].needs_source else ""
    call = ["```python", f'model = holdfast.adapt(network, "{description.name}"{source})', "```"]
    thought = f"**Idea.** {METHOD_FACTS[description.name].idea}"
    return [summary(description), "", thought, "", *papers(description), "", *call]


def summary(description: Description) -> str:
    """Return what the method does, in the first words of its class, and what a recipe adds to its method."""
    if description.method != description.name:
        text = description.summary
    else:
        text = " ".join((inspect.getdoc(METHODS[description.method]) or "").split("\n\n")[0].split("\n"))
    recovery = (
        f" with the recovery `{description.recovery}`" if description.recovery != "never" else " with other defaults"
    )
    return f"{text} Method `{description.method}`{recovery}." if description.name in RECIPES else text


def details(description: Description) -> list[str]:
    """Return what the class says beyond its summary."""
    _, *rest = (inspect.getdoc(METHODS[description.method]) or "").split("\n\n", 1)
    return ["## Details", "", *rest] if rest and description.method == description.name else []


def papers(description: Description) -> list[str]:
    """Return the citation, the papers by title, and the official code."""
    cited = [PAPERS[key] for key in METHOD_FACTS[description.name].paper]
    citation = description.citation.replace("docs/promise.md", "[the promise](../promise.md)")
    if not cited:
        return [f"Paper: {citation or 'none, it is the baseline'}"]
    paper = f"Paper: {'; '.join(map(str, cited))} ({citation})"
    if description.name in OURS:
        return [paper]
    code = dict.fromkeys(f"[{paper.code.split('.com/')[1]}]({paper.code})" for paper in cited if paper.code)
    return [f"{paper}  ", f"Official code: {', '.join(code) or 'none'}"]


def equation(name: str) -> list[str]:
    """Return the equation of the loss or statistics, and its symbols; the site renders it without a network."""
    method = METHOD_FACTS[name]
    lines = [line for formula in method.equation for line in ("", "```math", formula, "```")]
    text = "\n".join(method.equation)
    used = [
        words
        for sign, words in SYMBOLS.items()
        if re.search(sign, text) and not re.search(rf"\b{words[0]}₀?\b", method.where)
    ]
    common = "".join(f" {words}." for words in used)
    return ["## Equation", *lines, "", f"Here {method.where}{common}"]


def paper_and_code(description: Description) -> list[str]:
    """Return where the paper and its official code differ, and which of them is followed."""
    if not METHOD_FACTS[description.name].paper or description.name in OURS:
        return []
    named = re.compile(rf"\b{description.name.replace('_', '-')}\b", re.IGNORECASE)
    listed = [
        difference_of(difference)
        for difference in differences()
        if named.search(difference.topic) or (difference.other and difference.other.method == description.name)
    ]
    lines = [*listed, *(f"- {text}" for text in METHOD_FACTS[description.name].differs)]
    link = "[Where papers and their code differ](../paper_and_code.md) has the whole list and what it changes."
    none = "No difference that changes a result is known for this method."
    return ["## Paper and code", "", *(lines or [none]), "", link]


def difference_of(difference: Difference) -> str:
    """Return one difference as a line of a list."""
    other = f"; for the other, `{difference.other}`" if difference.other else ""
    return (
        f"- {difference.topic[0].upper()}{difference.topic[1:]} ({difference.source}). Paper: {difference.paper}. "
        f"Code: {difference.code}. Followed: {FOLLOWED[difference.follows]}{other}."
    )


def alternatives(name: str) -> list[str]:
    """Return the nearest alternatives, and when to prefer each of them."""
    near = [f"- [{other}]({other}.md), if {when}" for other, when in METHOD_FACTS[name].near.items()]
    return ["## Alternatives", "", *near]


def facts(description: Description) -> list[str]:
    """Return the table of cost, requirements, and when to use the method."""
    learns = METHODS[description.method].learns
    lines = {
        "Predicts": f"{description.predicts} its update on the same batch" if learns else "without updates",
        "Passes per sample": description.passes,
        "Time per batch": cost(description.name),
        "Keeps besides the network": description.keeps,
        "Needs": description.needs,
        "Use it when": description.use_when or "–",
        "It fails when": description.fails_when or "–",
    }
    return ["| | |", "| --- | --- |", *(f"| {key} | {value} |" for key, value in lines.items() if value)]


def cost(name: str) -> str:
    """Return the measured time of a step in forward passes, and that of the official code; nothing without either."""
    key = next((key for key in COSTS if key.split(",")[0] == name), "")
    if not key:
        return ""
    entry, (_, *variants) = COSTS[key], key.split(", ")
    variant = f" with {variants[0]}" if variants else ""
    official = f"; the official code {entry['official']:.1f}" if entry["official"] else ""
    how = "ResNet-20, batches of 64, one thread, [all measurements](../../results/step-cost.json)"
    return f"{entry['forwards']:.1f} forward passes{variant}{official} ({how})"


def options(title: str, listed: tuple[Option, ...]) -> list[str]:
    """Return a table of options: the values they take, their defaults, and what they mean."""
    rows = [
        f"| `{option.name}` | {values(option.allowed)} | {as_code(option.default)} | {option.meaning} |"
        for option in listed
    ]
    head = ["| option | values | default | meaning |", "| --- | --- | --- | --- |"]
    return [f"## {title}", "", *head, *rows] if rows else []


def as_code(value: object) -> str:
    """Return a value as code in a cell of a table."""
    return f"`{value!r}`".replace("|", "\\|")


def values(allowed: str) -> str:
    """Return the values that an option takes, without the bound that no stream reaches."""
    words = {f" to {LARGEST:,}": "", "nothing": "`None`", "Callable": "a function", "'": "`"}
    for long, short in words.items():
        allowed = allowed.replace(long, short)
    return allowed


def presets(description: Description) -> list[str]:
    """Return the table of published settings."""
    rows = [
        f"| `{name}` | {', '.join(f'`{key}={value!r}`' for key, value in preset.items())} |"
        for name, preset in description.presets.items()
    ]
    head = "Without `preset`, one is chosen by the number of classes and the kind of normalisation."
    return ["## Presets", "", head, "", "| preset | options |", "| --- | --- |", *rows] if rows else []


def chooser() -> str:
    """Return the table to choose from."""
    rows = [
        f"| [{entry.name}]({entry.name}.md) | {entry.use_when or '–'} | {entry.fails_when or '–'} | {entry.passes} |"
        for entry in map(describe, names())
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
    listed = [(name, option) for name in RECOVERIES.names() for option in options_with_meanings(RECOVERIES[name])]
    rows = [f"| `{name}` | `{option.name}` | `{option.default!r}` | {option.meaning} |" for name, option in listed]
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
    catalogued |= runpy.run_path(str(HERE / "api_pages.py"))["pages"]()
    curves = {HERE / "curves" / f"{name}.svg": CURVES["svg"](name, RESULT) for name in names() if name in RESULT.curves}
    return {**catalogued, **curves, **{FOLDER / f"{name}.md": page(name).rstrip() + "\n" for name in names()}}
