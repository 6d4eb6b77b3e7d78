"""The numbers that methods report about themselves."""

from __future__ import annotations

from holdfast.report import plots
from holdfast.report.report import Chapter
from holdfast.report.section import Section, chart

__all__ = ["gauges"]

NOTES = {"domains": "; dashed: number of different domains that the stream has shown so far"}


def gauges(chapter: Chapter) -> Section | None:
    """Return a chart for each gauge of any method."""
    table = chapter.table
    found = dict.fromkeys(gauge for run in table.runs for gauge in run.rows.gauges)
    parts = [
        Section(
            f"{gauge.capitalize()} over time",
            chart(
                plots.gauge_over_time(table, gauge),
                f"As reported by the methods, averaged over the seeds{NOTES.get(gauge, '')}.",
            ),
        )
        for gauge in found
    ]
    return Section("", parts=parts) if parts else None
