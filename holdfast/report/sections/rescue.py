"""The story of the demo, at the top of its report."""

from __future__ import annotations

from html import escape

from holdfast.report.report import Report
from holdfast.report.rescue import scenes, sentences, story_figures, story_table
from holdfast.report.section import Section, chart
from holdfast.report.words import words_to_markdown

__all__ = ["rescue"]

NOTE = (
    "True accuracy over the last five batches where each batch holds one class, and the estimate without labels; the "
    "triangle is the alarm of the guard."
)


def rescue(report: Report) -> Section | None:
    """Return what the demo shows: one table, three sentences and one chart."""
    found = scenes(report.tables)
    if not found:
        return None
    table, story = story_table(found), sentences(found)
    text = "".join(f"<p>{escape(sentence)}</p>" for sentence in story)
    charts = "".join(chart(figure, "") for figure in story_figures(found))
    html = f"{text}\n{table.to_html()}\n<div class='pairs'>{charts}</div>\n<p class='note'>{escape(NOTE)}</p>"
    markdown = "\n".join([words_to_markdown(table), *story, ""])
    return Section(table.title, html, "rescue", markdown=markdown)
