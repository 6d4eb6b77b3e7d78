"""Write the tables of docs/promise.md from results/promise-cifar10.json. Run `python docs/promise_table.py`."""

from __future__ import annotations

import json
from pathlib import Path

DOCS = Path(__file__).parent
PAGE, RESULT = DOCS / "promise.md", DOCS.parent / "results" / "promise-cifar10.json"
BEGIN, END = "<!-- promise -->", "<!-- end of promise -->"
COSTS = {  # forwards and backwards of the network per sample
    "source": "1",
    "batch_norm": "1",
    "tent": "1 + 1 backward",
    "unitta_auto": "3",
    "anchor": "1",
    "blend": "2",
    "guard(tent)": "3.25 + 1 backward",
}


def gains() -> dict[str, dict[str, float]]:
    """Return points over the source by recipe and stream, and the source's own accuracy."""
    content = json.loads(RESULT.read_text())
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


def page() -> str:
    """Return the page with the tables between their marks."""
    before, _, rest = PAGE.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{tables()}\n\n{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(page())
