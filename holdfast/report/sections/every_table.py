"""Each table with everything about it: verdict, scores, charts, protocol."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from html import escape

from holdfast.report.formats import to_csv, to_html, to_latex, to_markdown
from holdfast.report.report import Chapter, Report
from holdfast.report.section import File, Section
from holdfast.report.sections.of_table.certainty import certainty
from holdfast.report.sections.of_table.cost import cost
from holdfast.report.sections.of_table.details import recipes, runs
from holdfast.report.sections.of_table.epochs import epochs
from holdfast.report.sections.of_table.estimates import estimates
from holdfast.report.sections.of_table.gauges import gauges
from holdfast.report.sections.of_table.order import order
from holdfast.report.sections.of_table.over_time import over_time
from holdfast.report.sections.of_table.protocol import protocol
from holdfast.report.sections.of_table.recovery_gains import recovery_gains
from holdfast.report.sections.of_table.severities import severities
from holdfast.report.sections.of_table.strip import strip
from holdfast.report.setting import setting, smoke

__all__ = ["TABLE_SECTIONS", "every_table"]

FORMATS = {"csv": ("CSV", to_csv), "md": ("Markdown", to_markdown), "tex": ("LaTeX", to_latex)}

TABLE_SECTIONS: tuple[Callable[[Chapter], Section | None], ...] = (
    over_time,
    strip,
    order,
    certainty,
    epochs,
    severities,
    gauges,
    cost,
    recovery_gains,
    estimates,
    protocol,
    recipes,
    runs,
)


def every_table(report: Report) -> Section | None:
    """Return a section for each table, in which every entry of `TABLE_SECTIONS` has its part."""
    parts = [_section(number, chapter) for number, chapter in enumerate(report.chapters)]
    if report.paged:
        parts = [replace(part, on_demand=True) for part in parts]
    return Section("", parts=parts) if parts else None


def _section(number: int, chapter: Chapter) -> Section:
    table = chapter.table
    verdict = escape(table.verdict).replace(" %", "&nbsp;%")
    parts = [section(chapter) for section in TABLE_SECTIONS]
    warning = smoke(table)
    marked = f"<p class='smoke'>{escape(warning)}</p>\n" if warning else ""
    files = [File(f"{chapter.name}.{ending}", title, render(table)) for ending, (title, render) in FORMATS.items()]
    return Section(
        table.title,
        f"{marked}<p class='verdict'>{verdict}.</p>\n<p class='setting'>{escape(setting(table))}</p>\n{to_html(table)}",
        f"table-{number}",
        files,
        markdown=next(file.text for file in files if file.format == "Markdown"),
        parts=[part for part in parts if part is not None],
    )
