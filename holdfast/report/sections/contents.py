"""The list of tables with their verdicts."""

from __future__ import annotations

from html import escape

from holdfast.report.report import Report
from holdfast.report.section import Section

__all__ = ["contents"]

FILTER = "<input type='search' placeholder='Filter tables' aria-label='Filter tables'>"


def contents(report: Report) -> Section | None:
    """Return links to the tables, where there are several."""
    if len(report.tables) < 2:
        return None
    items = (
        f'<li><a href="#table-{number}">{escape(table.title)}</a><span>{escape(table.verdict)}</span></li>'
        for number, table in enumerate(report.tables)
    )
    return Section("", f"<nav>{FILTER if report.paged else ''}<ul class='contents'>{''.join(items)}</ul></nav>")
