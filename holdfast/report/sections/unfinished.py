"""Runs that are in no table because they are not finished."""

from __future__ import annotations

from holdfast.report.report import Report, place
from holdfast.report.section import Section
from holdfast.report.words import plain_table

__all__ = ["unfinished"]


def unfinished(report: Report) -> Section | None:
    """Return the list of unfinished runs, with how far each got."""
    if not report.unfinished:
        return None
    rows = [
        [
            run.manifest.recipe.label,
            run.manifest.stream.label,
            run.manifest.model.name,
            str(run.manifest.seed),
            run.reached,
            place(run, report.folder),
        ]
        for run in report.unfinished
    ]
    titles = ["recipe", "stream", "model", "seed", "reached", "folder"]
    return Section(
        "Unfinished runs", plain_table(titles, rows, "Not in any table or chart until finished."), "unfinished"
    )
