"""The mean score against the cost of adaptation."""

from __future__ import annotations

from holdfast.report import plots
from holdfast.report.report import Chapter
from holdfast.report.section import Section, chart

__all__ = ["cost"]


def cost(chapter: Chapter) -> Section:
    """Return the mean of every recipe over its passes per sample."""
    table = chapter.table
    note = "Mean against cost; the dotted line is the source, which does not adapt."
    return Section(f"{table.metric.capitalize()} against cost", chart(plots.against_cost(table), note))
