"""`holdfast report`: write the report of a folder of runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, cast, get_args

import typer

from holdfast.cli.options import MetricName
from holdfast.registry import UnknownNameError, nearest

__all__ = ["print_report", "report"]


def report(
    runs: Annotated[Path, typer.Argument(help="A folder of runs.")],
    out: Annotated[
        Path | None, typer.Option(help="Write the page to this HTML file; by default report.html in the folder.")
    ] = None,
    metric: MetricName = "error",
) -> None:
    """Write one self-contained HTML page for a folder of runs, with CSV, Markdown and LaTeX beside it."""
    print_report(runs, out, metric)


def print_report(runs: Path, out: Path | None = None, metric: str = "error") -> None:
    """Write a report, and print its tables and where it is."""
    from holdfast import report as reports
    from holdfast.report import Metric

    if metric not in get_args(Metric):
        raise UnknownNameError(f"unknown metric {metric!r}; {nearest(metric, get_args(Metric))}")
    shown = cast(Metric, metric)
    page = reports.write_report(runs, out, metric=shown)
    tables = reports.make_tables(reports.read_runs(runs), shown)
    for table in tables:
        typer.echo(reports.to_markdown(table))
        for made in filter(None, (reports.gain_table(table), reports.error_table(table))):
            typer.echo(reports.words_to_markdown(made))
    for arena in reports.arena_tables(tables):
        typer.echo(reports.words_to_markdown(arena))
    typer.echo(f"report: {page.resolve()}")
