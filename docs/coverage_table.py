"""Write the coverage table of docs/results/estimators.md from results. Run `python docs/coverage_table.py`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent
PAGE, RESULT = DOCS / "results" / "estimators.md", DOCS.parent / "results" / "coverage.json"
BEGIN, END = "<!-- coverage -->", "<!-- end of coverage -->"
STREAMS = ("iid", "correlated", "sorted", "collapse")
SCALES = ("labels", "accuracy", "inputs", "nothing")


def table() -> str:
    """Return the table as Markdown: percent of intervals that hold, by network, stream and scale."""
    content = json.loads(RESULT.read_text())
    settings, rows = content["manifest"]["settings"], content["rows"]
    lines = [
        "| network | scale from | i.i.d. | correlated | sorted | collapse | width, points |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for network in sorted(settings, key=lambda name: not settings[name]["chosen_on"]):
        for scale in SCALES:
            found = {row["stream"]: row for row in rows if row["network"] == network and row["scale"] == scale}
            cells = " | ".join(_covered(found.get(stream)) for stream in STREAMS)
            widths = [row["width"] for row in found.values() if "width" in row]
            width = f"{100 * sum(widths) / len(widths):.0f}" if widths else "–"
            lines.append(f"| `{network}` | {scale} | {cells} | {width} |")
    for half, words in ((True, "the first three"), (False, "the other four")):
        for scale in ("labels", "nothing"):
            chosen = [row for row in rows if settings[row["network"]]["chosen_on"] is half and row["scale"] == scale]
            known = sum(row["windows"] - row["unknown"] for row in chosen)
            share = 100 * sum(row.get("covered", 0) for row in chosen) / known
            lines.append(f"| **{words}** | {scale} | {share:.0f} % of {known} windows | | | | |")
    return "\n".join(lines)


def _covered(row: dict[str, Any] | None) -> str:
    if row is None:
        return "–"
    known = row["windows"] - row["unknown"]
    return f"{100 * row['covered'] / known:.0f}" if known else "unknown"


def page() -> str:
    """Return the page with the table between its marks."""
    before, _, rest = PAGE.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{table()}\n\n{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(page())
