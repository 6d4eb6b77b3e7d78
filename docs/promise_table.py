"""Write the tables of docs/promise.md from results/promise-*.json. Run `python docs/promise_table.py`."""

from __future__ import annotations

import json
from pathlib import Path

DOCS = Path(__file__).parent
PAGE, RESULT = DOCS / "promise.md", DOCS.parent / "results" / "promise-cifar10.json"
MORE = RESULT.with_name("promise-more.json")
BEGIN, END = "<!-- promise -->", "<!-- end of promise -->"
BEGIN_MORE, END_MORE = "<!-- more -->", "<!-- end of more -->"
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
    """Return points over the source by recipe and stream, and the source's own accuracy."""
    content = json.loads(result.read_text())
    accuracy: dict[str, dict[str, float]] = {}
    for run in content["runs"]:
        stream = content["parts"][run["manifest"]["stream"]]["label"]
        accuracy.setdefault(run["recipe"], {})[stream] = 100 * run["summary"]["accuracy"]
    source = accuracy["source"]
    over = {
        recipe: {stream: value - source[stream] for stream, value in found.items()}
        for recipe, found in accuracy.items()
        if recipe != "source"
    }
    return {"source": source, **over}


def tables() -> str:
    """Return both tables as Markdown."""
    found = gains()
    source = found.pop("source")
    head = [
        "| recipe | worst stream | mean | streams below the source | forwards |",
        "| --- | ---: | ---: | ---: | --- |",
    ]
    for recipe, over in found.items():
        below = sum(gain < -0.5 for gain in over.values())
        mean = sum(over.values()) / len(over)
        head.append(
            f"| `{recipe}` | {min(over.values()):+.1f} | {mean:+.1f} | {below} of {len(over)} | {COSTS[recipe]} |"
        )
    rows = [f"| stream | source % | {' | '.join(f'`{recipe}`' for recipe in found)} |"]
    rows.append("| --- | ---: |" + " ---: |" * len(found))
    for stream, value in source.items():
        rows.append(f"| {stream} | {value:.1f} | {' | '.join(f'{over[stream]:+.1f}' for over in found.values())} |")
    return "\n".join([*head, "", *rows])


def more() -> str:
    """Return the table of all recipes on a few streams as Markdown; recipes that were not run have a dash."""
    found = gains(MORE)
    streams = sorted(found["source"], key=lambda stream: -sum(stream in over for over in found.values()))
    rows = [f"| recipe | {' | '.join(streams)} |", "| --- |" + " ---: |" * len(streams)]
    for recipe, over in sorted(found.items(), key=lambda entry: -len(entry[1])):
        sign = "" if recipe == "source" else "+"
        cells = (f"{over[stream]:{sign}.1f}" if stream in over else "–" for stream in streams)
        rows.append(f"| `{recipe}`{' %' if recipe == 'source' else ''} | {' | '.join(cells)} |")
    return "\n".join(rows)


def page() -> str:
    """Return the page with the tables between their marks."""
    text = PAGE.read_text()
    for begin, end, content in ((BEGIN, END, tables()), (BEGIN_MORE, END_MORE, more())):
        before, _, rest = text.partition(begin)
        _, _, after = rest.partition(end)
        text = f"{before}{begin}\n\n{content}\n\n{end}{after}"
    return text


if __name__ == "__main__":
    PAGE.write_text(page())
