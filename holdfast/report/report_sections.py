"""The sections of a report, in the order of the page: functions of the report that return a section, or None."""

from __future__ import annotations

from dataclasses import replace
from html import escape

from holdfast.display.cells import WordTable, slug
from holdfast.display.formats import to_html, to_markdown
from holdfast.report.arena import arena_tables
from holdfast.report.before_after import all_gains, cost_table, criteria_tables, make_gains
from holdfast.report.grid import make_grids
from holdfast.report.report import SECTIONS, Chapter, Report, folder_below
from holdfast.report.rescue import scenes, sentences, story_figures, story_table
from holdfast.report.section import File, Section, chart, joined, side_by_side, table_files, word_section
from holdfast.report.setting import setting
from holdfast.report.speeds import course_figure, course_table, make_courses
from holdfast.report.suite_text import suite_text
from holdfast.report.sweeps import make_sweeps, sweep_figure
from holdfast.report.table_sections import TABLE_SECTIONS
from holdfast.report.walks import walk_table

__all__ = ["SECTIONS"]

RESCUE_NOTE = (
    "True accuracy over the last five batches where each batch holds one class, and the estimate without labels; the "
    "triangle is the alarm of the guard."
)
FILTER = "<input type='search' placeholder='Filter tables' aria-label='Filter tables'>"


@SECTIONS.register("rescue")
def rescue(report: Report) -> Section | None:
    """Return what the demo shows: one table, three sentences and one chart."""
    streams = scenes(report.tables)
    if not streams:
        return None
    table, story = story_table(streams), sentences(streams)
    text = "".join(f"<p>{escape(sentence)}</p>" for sentence in story)
    charts = side_by_side(*(chart(figure, "") for figure in story_figures(streams)))
    html = f"{text}\n{to_html(table)}\n{charts}\n<p class='note'>{escape(RESCUE_NOTE)}</p>"
    return Section(table.title, html, "rescue", markdown="\n".join([to_markdown(table), *story, ""]))


@SECTIONS.register("all_streams")
def all_streams(report: Report) -> Section | None:
    """Return one table for each suite and model with several streams, or with published numbers."""
    parts = []
    for number, grid in enumerate(make_grids(report.tables)):
        cells = grid.cells()
        files = table_files(cells, cells.name, "csv", "tex")
        parts.append(Section(f"{grid.title}: all streams", to_html(cells), f"all-{number}", files))
    return joined(parts)


@SECTIONS.register("before_after")
def before_after(report: Report) -> Section | None:
    """Return the gains of recipes over the source, for criteria of DHAuDS and offline sets, and their cost."""
    gains = make_gains(report.tables)
    if not gains:
        return None
    parts = [Section(table.title, to_html(table)) for table in criteria_tables(gains)]
    cost, files = cost_table(gains), table_files(all_gains(gains), "before-after", "csv")
    parts.append(Section(cost.title, to_html(cost), files=files, files_note="All gains as"))
    return Section("Before → after", anchor="before-after", parts=parts)


@SECTIONS.register("sensitivity")
def sensitivity(report: Report) -> Section | None:
    """Return the scores over the values of each option that was varied while everything else was equal."""
    charts = [
        f"<div><h3>{sweep.metric.capitalize()} against {escape(sweep.option)}</h3>\n"
        f"{chart(sweep_figure(sweep), 'Everything else is equal. Streams: ' + ', '.join(sweep.streams) + '.')}</div>"
        for sweep in make_sweeps(report.tables)
    ]
    return Section("Sensitivity", side_by_side(*charts), "sensitivity") if charts else None


@SECTIONS.register("speeds")
def speeds(report: Report) -> Section | None:
    """Return how each recipe fares on streams that do not wait, for every speed of the stream."""
    parts = []
    for course in make_courses(report.tables):
        table = course_table(course)
        drawn = chart(course_figure(course), "The further right, the more batches arrive while a recipe adapts to one.")
        files = table_files(table, slug(table.title), "csv", "md", "tex")
        parts.append(Section(table.title, f"{to_html(table)}\n{drawn}", slug(table.title), files))
    return Section("Time", anchor="time", parts=parts) if parts else None


@SECTIONS.register("walks")
def walks(report: Report) -> Section | None:
    """Return the lengths of the transitions of walks."""
    table = walk_table(report.runs)
    return word_section(table, "transitions", anchor="transitions") if table else None


@SECTIONS.register("arena")
def arena(report: Report) -> Section | None:
    """Return one table for each suite and model in which a collapse was scripted."""
    tables = arena_tables(report.tables)
    return joined([word_section(table, slug(table.title), anchor=slug(table.title)) for table in tables])


@SECTIONS.register("contents")
def contents(report: Report) -> Section | None:
    """Return links to the tables with their conclusions, where there are several."""
    if len(report.tables) < 2:
        return None
    items = (
        f'<li><a href="#table-{number}">{escape(table.title)}</a><span>{escape(table.conclusion)}</span></li>'
        for number, table in enumerate(report.tables)
    )
    return Section("", f"<nav>{FILTER if report.paged else ''}<ul class='contents'>{''.join(items)}</ul></nav>")


@SECTIONS.register("every_table")
def every_table(report: Report) -> Section | None:
    """Return a section for each table, in which every entry of `TABLE_SECTIONS` has its part."""
    parts = [_table_section(number, chapter) for number, chapter in enumerate(report.chapters)]
    return joined([replace(part, on_demand=report.paged) for part in parts])


def _table_section(number: int, chapter: Chapter) -> Section:
    table, cells = chapter.table, chapter.table.cells()
    conclusion = escape(table.conclusion).replace(" %", "&nbsp;%")
    warning = f"<p class='smoke'>{escape(cells.warning)}</p>\n" if cells.warning else ""
    measured = f"<p class='setting'>{escape(setting(table))}</p>"
    return Section(
        table.title,
        f"{warning}<p class='conclusion'>{conclusion}.</p>\n{measured}\n{to_html(cells)}",
        f"table-{number}",
        table_files(cells, chapter.name, "csv", "md", "tex"),
        markdown=to_markdown(cells),
        parts=[part for section in TABLE_SECTIONS if (part := section(chapter)) is not None],
    )


@SECTIONS.register("unfinished")
def unfinished(report: Report) -> Section | None:
    """Return the list of unfinished runs, which are in no table, with how far each got."""
    rows = []
    for run in report.unfinished:
        manifest = run.manifest
        names = [manifest.recipe.label, manifest.stream.label, manifest.model.name, str(manifest.seed)]
        rows.append([*names, run.reached, folder_below(report.folder, run)])
    titles = ["recipe", "stream", "model", "seed", "reached", "folder"]
    table = WordTable("Unfinished runs", titles, rows, "Not in any table or chart until finished.")
    return Section(table.title, to_html(table), "unfinished") if rows else None


@SECTIONS.register("suites")
def suites(report: Report) -> Section | None:
    """Return the YAML of every suite; runs of versions that kept no jobs have none."""
    asked: dict[str, list[dict[str, object]]] = {}
    for run in report.runs:
        if run.manifest.asked:
            asked.setdefault(run.manifest.suite, []).append(run.manifest.asked)
    note = "<p class='note'>As the runs were asked for; <code>holdfast bench FILE.yaml</code> runs them again.</p>"
    parts = [_suite_section(name, suite_text(jobs)) for name, jobs in asked.items()]
    return Section("Suites", note, "suites", parts=parts) if parts else None


def _suite_section(name: str, text: str) -> Section:
    fold = f"<details><summary>{escape(name)}.yaml</summary><pre><code>{escape(text)}</code></pre></details>"
    return Section("", fold, files=[File(f"suite-{slug(name)}.yaml", "YAML", text)], files_note="This suite as")
