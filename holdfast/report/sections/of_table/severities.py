"""The severities along a walk."""

from __future__ import annotations

from holdfast.report import plots
from holdfast.report.report import Chapter
from holdfast.report.section import Section, chart

__all__ = ["severities"]


def severities(chapter: Chapter) -> Section | None:
    """Return both severities over time, where the stream is a walk."""
    table = chapter.table
    figure = plots.severities(table)
    note = (
        "One corruption fades out while the next fades in, along the path on which the accuracy stays near its target "
        f"(seed {table.runs[0].manifest.seed})."
    )
    return Section("Severities over time", chart(figure, note)) if figure else None
