"""`holdfast demo`: adapting helps, the same adapting collapses, and the guarded default holds."""

from __future__ import annotations

from pathlib import Path

import typer

from holdfast.cli.bench import run_suite
from holdfast.cli.options import Device, Executor, Out, Workers
from holdfast.cli.printing import print_markdown

BEFOREHAND = "16 runs on digits and keywords: about 3 minutes on 2 cores, and 4 MB in {folder}."


def demo(
    out: Out = Path("runs"), executor: Executor = "processes", workers: Workers = 2, device: Device = None
) -> None:
    """Show a collapse and its rescue on the embedded digits and keywords, and write a report."""
    from holdfast.data import Keywords

    folder = out / "demo"
    typer.echo(BEFOREHAND.format(folder=folder))
    placed = {} if device is None else {"device": device}
    run_suite("demo-rescue", folder, placed, executor=executor, workers=workers)
    try:
        Keywords()  # synthesised at their first use, before several workers need them
    except ImportError as error:
        typer.echo(f"Skipping the audio demo: {error}")
    else:
        run_suite("demo-rescue-audio", folder, placed, executor=executor, workers=workers)
    print_story(folder)


def print_story(folder: Path) -> None:
    """Write the report of the demo, and print its table, its three sentences and where the report is."""
    from holdfast import report as reports

    made = reports.make_report(folder, "accuracy")
    page = reports.write_report(made)
    print_markdown(f"\n{made.sections[0].markdown}")
    typer.echo(f"report: {page.resolve()}")
    typer.echo("next: holdfast doctor MODEL DATA, then holdfast recommend MODEL DATA")
