"""The numbers that methods report about themselves."""

from __future__ import annotations

from html import escape

import numpy as np

from holdfast.report import plots
from holdfast.report.report import Chapter
from holdfast.report.section import Section, chart

__all__ = ["gauges"]

NOTES = {"domains": "; dashed: number of different domains that the stream has shown so far"}


def gauges(chapter: Chapter) -> Section | None:
    """Return a chart for each gauge of any method; those that stay 0 share one sentence."""
    table = chapter.table
    names = dict.fromkeys(gauge for run in table.runs for gauge in run.rows.gauges)
    found = [name for name in names if any(np.any(run.rows.gauges.get(name, 0)) for run in table.runs)]
    zero = [name for name in names if name not in found]
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
    if zero:
        parts.append(Section("Gauges that stay 0", f"<p>{escape(', '.join(zero))}</p>"))
    return Section("", parts=parts) if parts else None
