"""Write the tables of docs/promise.md and docs/results/promise.md from results. Run `python docs/promise_table.py`."""

from __future__ import annotations

import json
from pathlib import Path

DOCS = Path(__file__).parent
RESULTS = DOCS.parent / "results"
RESULT, MORE = RESULTS / "promise-cifar10.json", RESULTS / "promise-more.json"
NETWORKS = {  # what each result was measured on
    "promise-cifar10.json": "CIFAR-10, ResNet-20",
    "promise-confirmed.json": "CIFAR-10, another ResNet-20, three seeds",
    "promise-digits.json": "digits, two seeds",
    "promise-keywords.json": "keywords, two seeds",
}
COSTS = {  # forwards and backwards of the network per sample
    "source": "1",
    "batch_norm": "1",
    "tent": "1 + 1 backward",
    "unitta_auto": "3",
    "anchor": "1",
    "blend": "2",
    "guard(tent)": "3.25 + 1 backward",
}


def gains(result: Path = RESULT) -> dict[str, dict[str, float]]:
    """Return points over the source by recipe and stream, in the mean of seeds, and the source's own accuracy."""
    content = json.loads(result.read_text())
    seen: dict[str, dict[str, list[float]]] = {}
    for run in content["runs"]:
        stream = content["parts"][run["manifest"]["stream"]]["label"]
        seen.setdefault(run["recipe"], {}).setdefault(stream, []).append(100 * run["summary"]["accuracy"])
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
    found = {words: gains(RESULTS / name) for name, words in NETWORKS.items()}
    heads = (f"{words}: {len(over['source'])} streams" for words, over in found.items())
    rows = [f"| recipe | forwards | {' | '.join(heads)} |", "| --- | --- |" + " ---: |" * len(found)]
    for recipe in list(COSTS)[1:]:
        cells = (_cell(over.get(recipe)) for over in found.values())
        rows.append(f"| `{recipe}` | {COSTS[recipe]} | {' | '.join(cells)} |")
    return "\n".join(rows)


def _cell(over: dict[str, float] | None) -> str:
    """Return worst and mean gain and the number of streams below the source."""
    if over is None:
        return "–"
    below = sum(gain < -0.5 for gain in over.values())
    return f"{min(over.values()):+.1f} / {sum(over.values()) / len(over):+.1f} / {below}"


def streams(result: Path = RESULT) -> str:
    """Return the table of gains on each stream as Markdown."""
    found = gains(result)
    source = found.pop("source")
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


def pages() -> dict[Path, str]:
    """Return the pages, each with its tables between their marks."""
    page, details = DOCS / "promise.md", DOCS / "results" / "promise.md"
    texts = {page: page.read_text(), details: details.read_text()}
    tables = [(page, "promise", summary()), (details, "streams", streams()), (details, "more", more())]
    for name in list(NETWORKS)[1:]:
        tables.append((details, name.removesuffix(".json").removeprefix("promise-"), streams(RESULTS / name)))
    for path, mark, content in tables:
        begin, end = f"<!-- {mark} -->", f"<!-- end of {mark} -->"
        before, _, rest = texts[path].partition(begin)
        _, _, after = rest.partition(end)
        texts[path] = f"{before}{begin}\n\n{content}\n\n{end}{after}"
    return texts


if __name__ == "__main__":
    for path, text in pages().items():
        path.write_text(text)
