"""Write the coverage table of docs/results/estimators.md from results, for docs/pages.py."""

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
    chosen_on, rows = content["manifest"]["chosen_on"], content["rows"]
    lines = [
        "| network | scale from | i.i.d. | correlated | sorted | collapse | width, points |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    confirmed = [row for row in rows if row["draw"] not in chosen_on]
    for network in content["manifest"]["settings"]:
        for scale in SCALES:
            by_stream = {row["stream"]: row for row in confirmed if row["network"] == network and row["scale"] == scale}
            cells = " | ".join(_covered(by_stream.get(stream)) for stream in STREAMS)
            widths = [row["width"] for row in by_stream.values() if "width" in row]
            width = f"{100 * sum(widths) / len(widths):.0f}" if widths else "–"
            lines.append(f"| `{network}` | {scale} | {cells} | {width} |")
    chosen = [row for row in rows if row["draw"] in chosen_on]
    for part, words in ((confirmed, "all of these"), (chosen, "the draws that were chosen on")):
        for scale in SCALES:
            lines.append(
                f"| **{words}** | {scale} | {_summary([row for row in part if row['scale'] == scale])} | | | | |"
            )
    return "\n".join(lines)


def _summary(rows: list[dict[str, Any]]) -> str:
    known = [row for row in rows if row["windows"] > row["unknown"]]
    windows = sum(row["windows"] - row["unknown"] for row in known)
    share = 100 * sum(row["covered"] for row in known) / windows
    few = sum(row["covered"] < 0.85 * (row["windows"] - row["unknown"]) for row in known)
    return f"{share:.0f} % of {windows} windows; {few} of {len(known)} cells below 85"


def _covered(row: dict[str, Any] | None) -> str:
    if row is None:
        return "–"
    known = row["windows"] - row["unknown"]
    return f"{100 * row['covered'] / known:.0f}" if known else "unknown"


def pages() -> dict[Path, str]:
    """Return the page with the table between its marks."""
    before, _, rest = PAGE.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    return {PAGE: f"{before}{BEGIN}\n\n{table()}\n\n{END}{after}"}
