"""The score along the stream."""

from __future__ import annotations

from holdfast.report import plots
from holdfast.report.report import Chapter
from holdfast.report.section import Section, chart

__all__ = ["over_time"]


def over_time(chapter: Chapter) -> Section:
    """Return the moving score of every recipe, with domains, resets and collapses marked."""
    table = chapter.table
    note = (
        f"Mean over the last {plots.window_samples(table):,} samples, averaged over the seeds. Click a name to hide "
        "it, double-click to show it alone. A cross marks where a recipe becomes worse than the source and stays so."
    )
    return Section(f"{table.metric.capitalize()} over time", chart(plots.over_time(table), note))
