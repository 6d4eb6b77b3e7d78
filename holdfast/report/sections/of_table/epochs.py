"""The score from epoch to epoch of an offline run with an oracle."""

from __future__ import annotations

from holdfast.report import plots
from holdfast.report.report import Chapter
from holdfast.report.section import Section, chart
from holdfast.report.tables import oracle_score

__all__ = ["epochs"]


def epochs(chapter: Chapter) -> Section | None:
    """Return the score after each epoch, where labels were used to measure it."""
    table = chapter.table
    figure = plots.over_epochs(table)
    note = "On the draws that were adapted to, measured with labels; the best epoch predicts. Mean over sets and seeds."
    name = oracle_score(table) or table.metric.capitalize()
    return Section(f"{name} over epochs", chart(figure, note)) if figure else None
