"""Accuracy estimated without labels against the measured accuracy."""

from __future__ import annotations

from holdfast.report import estimate_plots, plots
from holdfast.report.estimates import error_table, interval_table
from holdfast.report.report import Chapter
from holdfast.report.section import Section, chart, word_section
from holdfast.report.tables import Table

__all__ = ["estimates"]


def estimates(chapter: Chapter) -> Section | None:
    """Return errors, intervals, course, scatter and calibration of the estimates, where there are any."""
    table = chapter.table
    errors = error_table(table)
    if errors is None:
        return None
    intervals = interval_table(table)
    parts = [
        word_section(errors, f"{chapter.name}-estimates"),
        Section(intervals.title, intervals.to_html()) if intervals else None,
        Section("Estimate and truth over time", chart(estimate_plots.estimates_over_time(table), _course_note(table))),
        Section("Estimate against truth", f"<div class='pairs'>{_scatter(table)}{_calibration(table)}</div>"),
    ]
    return Section("", parts=[part for part in parts if part is not None])


def _course_note(table: Table) -> str:
    shade = ", the shade is the scripted collapse" if "collapse" in table.protocol else ""
    seed = table.runs[0].manifest.seed
    return f"One recipe at a time, seed {seed}; the band is the interval, if there is one, triangles are resets{shade}."


def _scatter(table: Table) -> str:
    note = f"All recipes and seeds, at most {plots.POINTS} batches of each estimator."
    return chart(estimate_plots.scatter(table), note)


def _calibration(table: Table) -> str:
    return chart(estimate_plots.calibration(table), "Means in bins of ten points; a larger dot holds more batches.")
