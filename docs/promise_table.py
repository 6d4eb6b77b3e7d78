"""Write the tables of docs/promise.md and docs/results/promise.md from results. Run `python docs/promise_table.py`."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent
RESULTS = DOCS.parent / "results"
RESULT, MORE, LONG = (RESULTS / f"promise-{name}.json" for name in ("cifar10", "more", "long"))
HOSTILE = RESULTS / "hostile.json"
RECIPES = {  # those of the first table, with the forwards and backwards of the network per sample
    "batch_norm": "1",
    "tent": "1 + 1 backward",
    "unitta_auto": "3",
    "anchor": "1",
    "blend": "2",
    "guard(tent)": "3.25 + 1 backward",
}


@dataclass(frozen=True)
class Network:
    """A network on which the promise was measured."""

    result: str  # the file's name without promise- and its suffix
    words: str
    model: str | None = None  # where a result has several

    def gains(self) -> dict[str, dict[str, float]]:
        """Return points over the source by recipe and stream."""
        return gains(RESULTS / f"promise-{self.result}.json", self.model)


NETWORKS = (
    Network("cifar10", "CIFAR-10, ResNet-20, one seed"),
    Network("confirmed", "CIFAR-10, another ResNet-20, three seeds"),
    Network("digits", "digits, ResNet, two seeds"),
    Network("other-norms", "digits, ResNet with GroupNorm, three seeds", "digits_resnet_gn"),
    Network("other-norms", "digits, ViT, three seeds", "digits_vit"),
    Network("efficientnet", "ImageNet, EfficientNet-Lite0, three seeds"),
    Network("keywords", "keywords, AMAuT, two seeds"),
    Network("esc10", "ESC-10, AMAuT, three seeds"),
)


def gains(result: Path = RESULT, model: str | None = None) -> dict[str, dict[str, float]]:
    """Return points over the source by recipe and stream, in the mean of seeds, and the source's own accuracy."""
    content = json.loads(result.read_text())
    seen: dict[str, dict[str, list[float]]] = {}
    for run in content["runs"]:
        stream, network = (content["parts"][run["manifest"][part]] for part in ("stream", "model"))
        if model in (None, network["name"]):
            seen.setdefault(run["recipe"], {}).setdefault(stream["label"], []).append(100 * run["summary"]["accuracy"])
    accuracy = {
        recipe: {stream: sum(values) / len(values) for stream, values in found.items()}
        for recipe, found in seen.items()
    }
    source = accuracy["source"]
    over = {
        recipe: {stream: value - source[stream] for stream, value in found.items()}
        for recipe, found in accuracy.items()
        if recipe != "source"
    }
    return {"source": source, **over}


def summary() -> str:
    """Return the table of worst and mean gains on every network as Markdown."""
    rows = [f"| network | streams | {' | '.join(f'`{recipe}`' for recipe in RECIPES)} |"]
    rows.append("| --- | ---: |" + " ---: |" * len(RECIPES))
    rows.append(f"| *forwards per sample* | | {' | '.join(RECIPES.values())} |")
    for network in NETWORKS:
        found = network.gains()
        cells = (_cell(found.get(recipe)) for recipe in RECIPES)
        rows.append(f"| {network.words} | {len(found['source'])} | {' | '.join(cells)} |")
    return "\n".join(rows)


def recipes(result: Path) -> str:
    """Return the table of worst and mean gains of every recipe as Markdown, the best mean first."""
    found = gains(result)
    del found["source"]
    rows = ["| recipe | worst stream | mean | streams more than 0.5 below |", "| --- | ---: | ---: | ---: |"]
    for recipe, over in sorted(found.items(), key=lambda entry: -sum(entry[1].values())):
        cells = _cell(over).split(" / ")
        rows.append(f"| `{recipe}` | {' | '.join(cells)} |")
    return "\n".join(rows)


def _cell(over: dict[str, float] | None) -> str:
    """Return worst and mean gain and the number of streams below the source."""
    if over is None:
        return "–"
    below = sum(gain < -0.5 for gain in over.values())
    return f"{min(over.values()):+.1f} / {sum(over.values()) / len(over):+.1f} / {below}"


def streams(found: dict[str, dict[str, float]]) -> str:
    """Return the table of gains on each stream as Markdown, for the recipes of the first table."""
    source = found["source"]
    found = {recipe: found[recipe] for recipe in RECIPES if recipe in found}
    rows = [f"| stream | source % | {' | '.join(f'`{recipe}`' for recipe in found)} |"]
    rows.append("| --- | ---: |" + " ---: |" * len(found))
    for stream, value in source.items():
        rows.append(f"| {stream} | {value:.1f} | {' | '.join(f'{over[stream]:+.1f}' for over in found.values())} |")
    return "\n".join(rows)


def more() -> str:
    """Return the table of all recipes on a few streams as Markdown; recipes that were not run have a dash."""
    found = gains(MORE)
    names = sorted(found["source"], key=lambda stream: -sum(stream in over for over in found.values()))
    rows = [f"| recipe | {' | '.join(names)} |", "| --- |" + " ---: |" * len(names)]
    for recipe, over in sorted(found.items(), key=lambda entry: -len(entry[1])):
        sign = "" if recipe == "source" else "+"
        cells = (f"{over[stream]:{sign}.1f}" if stream in over else "–" for stream in names)
        rows.append(f"| `{recipe}`{' %' if recipe == 'source' else ''} | {' | '.join(cells)} |")
    return "\n".join(rows)


def long() -> str:
    """Return the table of accuracies in a long run, in all of it and in its first and last tenth, as Markdown."""
    rows = ["| recipe | all | first tenth | last tenth |", "| --- | ---: | ---: | ---: |"]
    for run in json.loads(LONG.read_text())["runs"]:
        windows = run["window_accuracy"]
        tenth = len(windows) // 10
        shown = run["summary"]["accuracy"], sum(windows[:tenth]) / tenth, sum(windows[-tenth:]) / tenth
        rows.append(f"| `{run['recipe']}` | {' | '.join(f'{100 * value:.1f} %' for value in shown)} |")
    return "\n".join(rows)


def hostile() -> str:
    """Return the table of worst and mean gains on hostile streams, by network and half, as Markdown."""
    rows = json.loads(HOSTILE.read_text())["measured"]["rows"]
    lines = _head("network, half", "streams", rows)
    for subject, half in dict.fromkeys((row["subject"], row["half"]) for row in rows):
        mine = [row for row in rows if (row["subject"], row["half"]) == (subject, half)]
        cells = (_cell({row["stream"]: row["gains"][method] for row in mine}) for method in mine[0]["gains"])
        lines.append(f"| {subject}, {half} | {len(mine)} | {' | '.join(cells)} |")
    return "\n".join(lines)


def lost() -> str:
    """Return the table of hostile streams on which the blend is more than one point below the source as Markdown."""
    rows = json.loads(HOSTILE.read_text())["measured"]["rows"]
    lines = _head("stream", "source %", rows)
    for row in sorted(rows, key=lambda row: row["gains"]["blend"]):
        if row["gains"]["blend"] < -1:
            cells = " | ".join(f"{gain:+.1f}" for gain in row["gains"].values())
            lines.append(f"| {row['subject']}, {row['half']}: {row['stream']} | {row['source']:.1f} | {cells} |")
    return "\n".join(lines)


def _head(first: str, second: str, rows: list[dict[str, Any]]) -> list[str]:
    methods = [f"`{method}`" for method in rows[0]["gains"]]
    return [f"| {first} | {second} | {' | '.join(methods)} |", "| --- | ---: |" + " ---: |" * len(methods)]


def pages() -> dict[Path, str]:
    """Return the pages, each with its tables between their marks."""
    page, details = DOCS / "promise.md", DOCS / "results" / "promise.md"
    texts = {page: page.read_text(), details: details.read_text()}
    tables = [(page, "promise", summary()), (details, "more", more()), (details, "long", long())]
    tables += [(details, "hostile", hostile()), (details, "lost", lost())]
    tables.append((details, "recipes", recipes(RESULTS / "promise-digits.json")))
    for network in NETWORKS:
        tables.append((details, network.model or network.result, streams(network.gains())))
    for path, mark, content in tables:
        begin, end = f"<!-- {mark} -->", f"<!-- end of {mark} -->"
        before, _, rest = texts[path].partition(begin)
        _, _, after = rest.partition(end)
        texts[path] = f"{before}{begin}\n\n{content}\n\n{end}{after}"
    return texts


if __name__ == "__main__":
    for path, text in pages().items():
        path.write_text(text)
