"""The report: one HTML file that needs nothing but a browser, and its tables as files beside it."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any
from urllib.parse import quote

from plotly.offline import get_plotlyjs

from holdfast.report import estimate_plots, plots
from holdfast.report.arena import arena_tables
from holdfast.report.before_after import SCORES, Gains, by_criterion, gains_to_csv, make_gains
from holdfast.report.estimates import error_table, interval_table
from holdfast.report.formats import html_cell, to_csv, to_html, to_latex, to_markdown
from holdfast.report.gains import gain_table
from holdfast.report.grid import Grid, grid_to_csv, grid_to_latex, make_grids
from holdfast.report.runs import RunRecord, read_runs
from holdfast.report.style import SCRIPT, STYLE
from holdfast.report.sweeps import Sweep, make_sweeps, sweep_figure
from holdfast.report.tables import RECIPE_FIELDS, Metric, Table, make_tables
from holdfast.report.words import WordTable, plain_table, words_to_csv

__all__ = ["write_report"]

FORMATS = {"csv": ("CSV", to_csv), "md": ("Markdown", to_markdown), "tex": ("LaTeX", to_latex)}
GRID_FORMATS = {"csv": ("CSV", grid_to_csv), "tex": ("LaTeX", grid_to_latex)}
GAUGE_NOTES = {"domains": "; dashed: how many different domains the stream has shown so far"}
GAINS_NOTE = "Shares of the frozen source model, then of the adapted one, on the same clips; mean over the seeds."
PUBLISHED_NOTE = (
    " Published: by the authors for the same network, score and number of clips, the epoch chosen with labels."
)
COST_NOTE = (
    "Gains over the criteria of one row of runs, and in how many there is one. Time per clip is all of adapting and "
    "answering, the peak that of the whole process. Best − last: what choosing the epoch with labels was worth, in "
    "points of accuracy."
)
# The browser itself refuses whatever would leave the page.
POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:"


def write_report(runs_folder: Path | str, out: Path | str | None = None, *, metric: Metric = "error") -> Path:
    """Write the report of a folder of runs, by default as `report.html` in it, and return its path."""
    folder = Path(runs_folder)
    page = Path(out if out is not None else folder)
    page = page / "report.html" if page.is_dir() else page
    runs = read_runs(folder)
    tables = make_tables(runs, metric)
    page.parent.mkdir(parents=True, exist_ok=True)
    names = file_names(page.stem, tables)
    for name, table in zip(names, tables, strict=True):
        for ending, (_, render) in FORMATS.items():
            write_whole(page.with_name(f"{name}.{ending}"), render(table))
    sections = []
    for number, grid in enumerate(make_grids(tables)):
        for ending, (_, render_grid) in GRID_FORMATS.items():
            write_whole(page.with_name(f"{grid_file(page.stem, grid)}.{ending}"), render_grid(grid))
        sections.append(grid_section(page.stem, number, grid))
    gains = make_gains(tables)
    if gains:
        write_whole(page.with_name(f"{page.stem}-before-after.csv"), gains_to_csv(gains))
        sections.append(before_after_section(page.stem, gains))
    sections.append(sweeps_section(make_sweeps(tables)))
    for arena in arena_tables(tables):
        write_whole(page.with_name(words_file(page.stem, arena)), words_to_csv(arena))
        sections.append(words_section(page.stem, arena))
    for name, table in zip(names, tables, strict=True):
        for ending, made in (("estimates", error_table(table)), ("gains", gain_table(table))):
            if made:
                write_whole(page.with_name(f"{name}-{ending}.csv"), words_to_csv(made))
    write_whole(page, render_page(folder, runs, tables, names, sections))
    return page


def write_whole(path: Path, text: str) -> None:
    """Write a file under a temporary name, then rename it, so that nobody ever reads half of it."""
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    unfinished.write_text(text, encoding="utf-8", newline="\n")
    unfinished.replace(path)


def grid_file(stem: str, grid: Grid) -> str:
    """Return the name of a grid's files, without their ending."""
    return f"{stem}-all-{re.sub(r'[^A-Za-z0-9]+', '-', grid.title).strip('-').lower()}"


def words_file(stem: str, table: WordTable) -> str:
    """Return the name of the file of a table over several streams."""
    return f"{stem}-{re.sub(r'[^A-Za-z0-9]+', '-', table.title).strip('-').lower()}.csv"


def words_section(stem: str, table: WordTable) -> str:
    """Return a table over several streams, with its file."""
    link = csv_link(words_file(stem, table))
    return f"<section><h2>{escape(table.title)}</h2>\n{table.to_html()}\n{link}</section>"


def csv_link(file: str) -> str:
    """Return the line below a table that names its file."""
    return f'<p class="files">This table as <a href="{quote(file)}">CSV</a></p>'


def file_names(stem: str, tables: Sequence[Table]) -> list[str]:
    """Return a distinct name for the files of each table, without their ending."""
    names: list[str] = []
    for table in tables:
        name = f"{stem}-{re.sub(r'[^A-Za-z0-9]+', '-', table.title).strip('-').lower()}"
        while name in names:
            name += "-too"
        names.append(name)
    return names


def render_page(
    folder: Path,
    runs: Sequence[RunRecord],
    tables: Sequence[Table],
    names: Sequence[str],
    grid_sections: Sequence[str] = (),
) -> str:
    """Return the whole page."""
    suites = ", ".join(dict.fromkeys(run.manifest.suite for run in runs))
    unfinished = [run for run in runs if not run.finished]
    body = [
        f"<header><p class='eyebrow'>holdfast report</p>\n<h1>{escape(suites)}</h1>",
        f"<p class='lead'>{overview(runs, unfinished)}</p></header>",
        *grid_sections,
        contents(tables) if len(tables) > 1 else "",
        *(section(folder, number, table, name) for number, (table, name) in enumerate(zip(tables, names, strict=True))),
        unfinished_section(folder, unfinished) if unfinished else "",
        "<footer>Made by holdfast from the files of its runs alone: the same files give the same page.</footer>",
    ]
    return "\n".join(
        [
            "<!doctype html>",
            '<html lang="en">',
            "<head>",
            '<meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{escape(suites)} – holdfast report</title>",
            f"<style>{STYLE}</style>",
            "</head>",
            "<body>",
            "<main>",
            *body,
            "</main>",
            f"<script>{get_plotlyjs()}</script>",
            f"<script>{SCRIPT}</script>",
            "</body>",
            "</html>",
            "",
        ]
    )


def overview(runs: Sequence[RunRecord], unfinished: Sequence[RunRecord]) -> str:
    """Return what the report covers, in one line."""
    counts = [count(len(runs), "run"), count(len({run.manifest.recipe.label for run in runs}), "recipe")]
    counts.append(count(len({run.manifest.seed for run in runs}), "seed"))
    if unfinished:
        counts.append(f'<a href="#unfinished">{len(unfinished)} not finished</a>')
    return " · ".join(counts)


def count(number: int, thing: str) -> str:
    """Return a number of things in words.

    >>> count(1, "run"), count(3, "run")
    ('1 run', '3 runs')
    """
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"


def contents(tables: Sequence[Table]) -> str:
    """Return the list of tables with their verdicts."""
    items = (
        f'<li><a href="#table-{number}">{escape(table.title)}</a><span>{escape(table.verdict)}</span></li>'
        for number, table in enumerate(tables)
    )
    return f"<nav><ul class='contents'>{''.join(items)}</ul></nav>"


def unfinished_section(folder: Path, runs: Sequence[RunRecord]) -> str:
    """Return the list of runs that are in no table because they have not come to their end."""
    rows = [
        [
            run.manifest.recipe.label,
            run.manifest.stream.label,
            run.manifest.model.name,
            str(run.manifest.seed),
            run.reached,
            place(run, folder),
        ]
        for run in runs
    ]
    titles = ["recipe", "stream", "model", "seed", "reached", "folder"]
    grid = plain_table(titles, rows, "In no table and no chart until they are finished.")
    return f"<section id='unfinished'><h2>Unfinished runs</h2>\n{grid}</section>"


def grid_section(stem: str, number: int, grid: Grid) -> str:
    """Return all streams of a suite in one table, its columns in groups."""
    above = "".join(f'<th scope="colgroup" colspan="{width}">{escape(name)}</th>' for name, width in grid.groups)
    heads = "".join(f'<th scope="col">{escape(column.head)}</th>' for column in grid.columns)
    rows = []
    for recipe in grid.scores:
        cells = "".join(html_cell(grid.cell(recipe, column)) for column in grid.columns)
        rows.append(f'<tr><th scope="row">{escape(recipe)}</th>{cells}</tr>')
    head = f'<tr><th scope="col">recipe</th>{heads}</tr>'
    if any(name for name, _ in grid.groups):
        head = f'<tr class="groups"><th></th>{above}</tr>{head}'
    spans = "<colgroup></colgroup>" + "".join(f'<colgroup span="{width}"></colgroup>' for _, width in grid.groups)
    table = f"<table>{spans}<thead>{head}</thead><tbody>{''.join(rows)}</tbody></table>"
    files = " · ".join(
        f'<a href="{quote(grid_file(stem, grid))}.{ending}">{title}</a>' for ending, (title, _) in GRID_FORMATS.items()
    )
    return (
        f"<section id='all-{number}'><h2>{escape(grid.title)}: all streams</h2>\n"
        f'<figure class="grid"><div class="scroll">{table}</div><figcaption>{escape(grid.note)}</figcaption></figure>\n'
        f'<p class="files">This table as {files}</p></section>'
    )


def sweeps_section(sweeps: Sequence[Sweep]) -> str:
    """Return a chart for each option that was varied, nothing where none was."""
    if not sweeps:
        return ""
    charts = (
        f"<div><h3>{sweep.metric.capitalize()} against {escape(sweep.option)}</h3>\n"
        f"{chart(sweep_figure(sweep), 'All else is equal. Streams: ' + ', '.join(sweep.streams) + '.')}</div>"
        for sweep in sweeps
    )
    return f"<section id='sensitivity'><h2>Sensitivity</h2>\n<div class='pairs'>{''.join(charts)}</div></section>"


def before_after_section(stem: str, gains: Sequence[Gains]) -> str:
    """Return before → after for every criterion, then the extent of the gains and their cost."""
    parts = ["<section id='before-after'><h2>Before → after</h2>"]
    for title in dict.fromkeys(entry.title for entry in gains):
        for score in dict.fromkeys(entry.score for entry in gains if entry.title == title):
            chosen = [entry for entry in gains if (entry.title, entry.score) == (title, score)]
            recipes = [entry.recipe for entry in chosen]
            rows = [[name, *(words[recipe] for recipe in recipes)] for name, words in by_criterion(chosen).items()]
            parts.append(f"<h3>{escape(title)}: {SCORES[score]}</h3>")
            beside = any(row.published is not None for entry in chosen for row in entry.rows)
            note = GAINS_NOTE + (PUBLISHED_NOTE if beside else "")
            parts.append(plain_table(["criterion", *recipes], rows, note))
    named, extent = ["suite, model, protocol", "recipe", "score"], ["improved", "least gain", "largest", "mean"]
    titles = [*named, *extent, "ms per clip", "peak MiB"]
    rows = [
        [
            *(entry.title, entry.recipe, SCORES[entry.score]),
            f"{entry.improved} of {len(entry.rows)}",
            *(f"{gain:+.4f}" for gain in entry.extent),
            f"{entry.milliseconds_per_clip:.1f}",
            "–" if entry.peak_mib is None else f"{entry.peak_mib:,.0f}",
            "–" if entry.oracle_gap is None else f"{entry.oracle_gap:+.2f}",
        ]
        for entry in gains
    ]
    parts.append("<h3>Extent and cost</h3>")
    parts.append(plain_table([*titles, "best − last (points)"], rows, COST_NOTE))
    parts.append(f'<p class="files">All of it as <a href="{quote(stem)}-before-after.csv">CSV</a></p></section>')
    return "\n".join(parts)


def section(folder: Path, number: int, table: Table, name: str) -> str:
    """Return everything about one table: verdict, scores, charts, protocol."""
    files = " · ".join(f'<a href="{quote(name)}.{ending}">{title}</a>' for ending, (title, _) in FORMATS.items())
    over_time = (
        f"Mean over the last {plots.window_samples(table):,} samples, averaged over the seeds; "
        "click a name to hide it, double-click to see it alone. A cross: below the source from there to the end."
    )
    against_cost = "Mean against cost; the dotted line is the source, which does not adapt."
    return "\n".join(
        [
            f'<section id="table-{number}">',
            f"<h2>{escape(table.title)}</h2>",
            f"<p class='verdict'>{escape(table.verdict).replace(' %', '&nbsp;%')}.</p>",
            to_html(table),
            f"<p class='files'>This table as {files}</p>",
            f"<h3>{table.metric.capitalize()} over time</h3>",
            chart(plots.over_time(table), over_time),
            epochs_section(table),
            severities_section(table),
            *gauge_sections(table),
            f"<h3>{table.metric.capitalize()} against cost</h3>",
            chart(plots.against_cost(table), against_cost),
            gains_section(table, name),
            estimates_section(table, name),
            "<h3>Protocol</h3>",
            protocol_list(table),
            f"<details><summary>Recipes</summary>{recipes_table(table)}</details>",
            f"<details><summary>Runs and their fingerprints</summary>{runs_table(folder, table)}</details>",
            "</section>",
        ]
    )


def epochs_section(table: Table) -> str:
    """Return the accuracy from epoch to epoch, where an oracle has watched it."""
    figure = plots.over_epochs(table)
    if figure is None:
        return ""
    note = "On the draws that were adapted to, measured with labels; the best epoch answered. Mean over sets and seeds."
    return f"<h3>{table.metric.capitalize()} over epochs</h3>\n{chart(figure, note)}"


def severities_section(table: Table) -> str:
    """Return the severities along a walk, where the stream is one."""
    figure = plots.severities(table)
    if figure is None:
        return ""
    note = (
        "One corruption fades out while the next fades in, along the path on which the accuracy stays near its target"
    )
    return f"<h3>Severities over time</h3>\n{chart(figure, f'{note} (seed {table.runs[0].manifest.seed}).')}"


def gauge_sections(table: Table) -> Iterator[str]:
    """Yield a chart for each number that methods keep of themselves."""
    for name in dict.fromkeys(name for run in table.runs for name in run.rows.gauges):
        note = f"As the methods see themselves, averaged over the seeds{GAUGE_NOTES.get(name, '')}."
        yield f"<h3>{escape(name.capitalize())} over time</h3>\n{chart(plots.gauge_over_time(table, name), note)}"


def chart(figure: Mapping[str, Any], note: str) -> str:
    """Return the place of a chart, with its data beside it."""
    data = json.dumps(figure, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
    return (
        f"<figure><div class='chart'></div><script type='application/json'>{data}</script>"
        f"<figcaption>{escape(note)}</figcaption></figure>"
    )


def estimates_section(table: Table, name: str) -> str:
    """Return estimates against the truth, where there are any: errors, course, scatter and calibration."""
    errors = error_table(table)
    if errors is None:
        return ""
    intervals = interval_table(table)
    seed = table.runs[0].manifest.seed
    course = f"One recipe at a time, seed {seed}; the band is the interval where there is one, triangles are resets" + (
        ", the shade is the scripted collapse." if "collapse" in table.protocol else "."
    )
    both = [
        chart(
            estimate_plots.scatter(table), f"All recipes and seeds, at most {plots.POINTS} batches of each estimator."
        ),
        chart(estimate_plots.calibration(table), "Means in bins of ten points; a larger dot stands for more batches."),
    ]
    return "\n".join(
        [
            f"<h3>{escape(errors.title)}</h3>",
            errors.to_html(),
            csv_link(f"{name}-estimates.csv"),
            f"<h3>{escape(intervals.title)}</h3>\n{intervals.to_html()}" if intervals else "",
            "<h3>Estimate and truth over time</h3>",
            chart(estimate_plots.estimates_over_time(table), course),
            "<h3>Estimate against truth</h3>",
            f"<div class='pairs'>{''.join(both)}</div>",
        ]
    )


def gains_section(table: Table, name: str) -> str:
    """Return what recoveries add to methods, where a method ran with several."""
    gains = gain_table(table)
    return f"<h3>{escape(gains.title)}</h3>\n{gains.to_html()}\n{csv_link(f'{name}-gains.csv')}" if gains else ""


def protocol_list(table: Table) -> str:
    """Return every field of the protocol; what recipes bring along with all its values."""
    own = {
        field: ", ".join(dict.fromkeys(in_words(run.manifest.protocol[field]) for run in table.runs))
        for field in RECIPE_FIELDS
        if all(field in run.manifest.protocol for run in table.runs)
    }
    fields = {**table.protocol, **own}
    items = (
        f"<dt>{escape(field.replace('_', ' '))}</dt><dd>{escape(in_words(value))}</dd>"
        for field, value in fields.items()
    )
    return f"<dl>{''.join(items)}</dl>"


def in_words(value: object) -> str:
    """Return a setting as a reader expects it.

    >>> in_words({"lr": 0.01, "views": 2}), in_words(None)
    ('lr 0.01, views 2', 'none')
    """
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {in_words(inner)}" for name, inner in value.items()) or "none"
    if isinstance(value, list):
        return ", ".join(map(in_words, value)) or "none"
    return "none" if value is None else str(value)


def recipes_table(table: Table) -> str:
    """Return what each recipe is made of, and who published it."""
    rows = []
    for line in table.lines:
        recipe = line.recipe
        settings = (recipe.method, recipe.preset, recipe.options, recipe.recovery, recipe.recovery_options)
        rows.append([line.label, *map(in_words, (*settings, recipe.estimators)), recipe.citation])
    titles = ["recipe", "method", "preset", "options", "recovery", "recovery options", "estimators", "citation"]
    return plain_table(titles, rows)


def runs_table(folder: Path, table: Table) -> str:
    """Return every run of a table with the fingerprint of its protocol and its place."""
    rows = [
        [line.label, str(run.manifest.seed), run.manifest.suite, run.manifest.fingerprint, place(run, folder)]
        for line in table.lines
        for run in line.runs
    ]
    return plain_table(["recipe", "seed", "suite", "fingerprint", "folder"], rows)


def place(run: RunRecord, folder: Path) -> str:
    """Return the folder of a run, seen from the folder of all runs."""
    return run.folder.relative_to(folder).as_posix()
