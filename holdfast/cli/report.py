"""`holdfast report`: write the report of a folder of runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli.options import MetricName, checked_metric
from holdfast.cli.printing import print_markdown


def report(
    runs: Annotated[Path, typer.Argument(help="A folder of runs.")],
    out: Annotated[
        Path | None, typer.Option(help="Write the page to this HTML file; by default report.html in the folder.")
    ] = None,
    metric: MetricName = "error",
) -> None:
    """Write one self-contained HTML page for a folder of runs, with CSV, Markdown and LaTeX beside it."""
    from holdfast import report as reports

    made = reports.make_report(runs, checked_metric(metric))
    page = reports.write_report(made, out)
    print_markdown(reports.report_to_markdown(made))
    typer.echo(f"report: {page.resolve()}")
