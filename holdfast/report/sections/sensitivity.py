"""A chart for each option that was varied while everything else was equal."""

from __future__ import annotations

from html import escape

from holdfast.report.report import Report
from holdfast.report.section import Section, chart
from holdfast.report.sweeps import make_sweeps, sweep_figure

__all__ = ["sensitivity"]


def sensitivity(report: Report) -> Section | None:
    """Return the scores over the values of each varied option."""
    sweeps = make_sweeps(report.tables)
    if not sweeps:
        return None
    charts = (
        f"<div><h3>{sweep.metric.capitalize()} against {escape(sweep.option)}</h3>\n"
        f"{chart(sweep_figure(sweep), 'Everything else is equal. Streams: ' + ', '.join(sweep.streams) + '.')}</div>"
        for sweep in sweeps
    )
    return Section("Sensitivity", f"<div class='pairs'>{''.join(charts)}</div>", "sensitivity")
