"""How sure the order of the recipes is."""

from __future__ import annotations

from holdfast.report.order import LEVEL, RESAMPLES
from holdfast.report.report import Chapter
from holdfast.report.section import Section
from holdfast.report.words import plain_table

__all__ = ["order"]


def order(chapter: Chapter) -> Section | None:
    """Return each recipe's distance to the best, its interval, and how often it is the best of a resample."""
    table = chapter.table
    if table.standings is None:
        return None
    found = sorted(zip(table.lines, table.standings, strict=True), key=lambda pair: pair[1].difference)
    rows = [
        [
            line.label,
            _points(one.difference),
            f"{_points(one.low)} to {_points(one.high)}",
            f"{100 * one.first:.0f} %",
            "behind" if line not in table.leading else "best" if len(table.leading) == 1 else "tied for the best",
        ]
        for line, one in found
    ]
    note = (
        f"Points behind the best recipe in accuracy, with {100 * LEVEL:.0f} % intervals from a paired bootstrap: "
        f"{RESAMPLES:,} times, seeds and blocks of neighbouring batches are drawn anew, the same for all recipes. "
        "Seeds other than these, and other streams, are not covered."
    )
    titles = ["recipe", "points behind", "interval", "first in", "verdict"]
    return Section("How sure the order is", plain_table(titles, rows, note))


def _points(value: float) -> str:
    return f"{round(value, 1) + 0.0:.1f}"  # never -0.0
