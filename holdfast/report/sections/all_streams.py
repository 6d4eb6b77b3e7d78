"""All streams of a suite in one table, its columns in groups."""

from __future__ import annotations

from html import escape

from holdfast.report.formats import html_cell
from holdfast.report.grid import Grid, grid_to_csv, grid_to_latex, make_grids
from holdfast.report.report import Report
from holdfast.report.section import File, Section
from holdfast.report.words import slug

__all__ = ["all_streams"]


def all_streams(report: Report) -> Section | None:
    """Return one table for each suite and model with several streams, or with published numbers."""
    grids = make_grids(report.tables)
    return Section("", parts=[_section(number, grid) for number, grid in enumerate(grids)]) if grids else None


def _section(number: int, grid: Grid) -> Section:
    name = f"all-{slug(grid.title)}"
    files = [File(f"{name}.csv", "CSV", grid_to_csv(grid)), File(f"{name}.tex", "LaTeX", grid_to_latex(grid))]
    return Section(f"{grid.title}: all streams", grid_to_html(grid), f"all-{number}", files)


def grid_to_html(grid: Grid) -> str:
    """Return the table, with the names of the groups above their columns."""
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
    return (
        f'<figure class="grid"><div class="scroll">{table}</div><figcaption>{escape(grid.note)}</figcaption></figure>'
    )
