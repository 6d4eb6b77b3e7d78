"""`holdfast prepare`: list what a suite still needs, and what it will cost."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

from holdfast.cli.options import AsJson, Scale, Settings, SuiteName, parse_settings

if TYPE_CHECKING:
    from holdfast.benchmark.preparation import Need

__all__ = ["prepare"]


def prepare(
    suite: SuiteName,
    scale: Scale = None,
    settings: Settings = None,
    measure: Annotated[
        bool, typer.Option(help="Measure the speed of networks that can be built here, to estimate hours.")
    ] = True,
    fetch: Annotated[
        bool, typer.Option(help="Download missing data that are free to use; print the address of the others.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """List the data, weights and packages that a suite needs and that are missing, each once, and what it will cost."""
    from holdfast.benchmark import load_suite
    from holdfast.benchmark.preparation import cost_of, needs_of, rate_of

    if scale is None and "paper" in load_suite(suite).scales:
        scale = "paper"
    jobs = load_suite(suite, parse_settings(settings), scale=scale).jobs()
    needs, cost = needs_of(jobs), cost_of(jobs)
    if fetch:
        _fetch([need for need in needs if not need.is_there and need.source.archives])
    absent = [need for need in needs if not need.is_there]
    models = {job.model.label: job.model for job in jobs} if measure else {}
    rates = {label: rate for label, model in models.items() if (rate := rate_of(model)) is not None}
    if as_json:
        content = {"jobs": len(jobs), "missing": [asdict(need) for need in absent], "cost": asdict(cost)}
        typer.echo(json.dumps({**content, "passes_per_second": rates}))
        return
    typer.echo(f"{len(jobs)} jobs; {len(needs)} things needed, {len(absent)} missing")
    for need in absent:
        typer.echo(f"- {need}")
    unknown = f", and {cost.unknown} jobs whose length the data decide" if cost.unknown else ""
    typer.echo(f"cost: {cost.samples:,} predictions, about {cost.passes:,} forward passes{unknown}")
    typer.echo(f"disk: about {cost.disk_mb:,.0f} MB of rows")
    for label, rate in rates.items():
        hours = sum(cost_of([job]).passes for job in jobs if job.model.label == label) / rate / 3600
        typer.echo(f"time: {label} at {rate:,.0f} passes per second on this machine: about {hours:,.1f} hours")
    if not rates:
        typer.echo("time: no network of the suite can be built here, so none was measured")
    ending = "get what is missing, then" if absent else "everything is there; next:"
    typer.echo(f"{ending} holdfast bench {suite}{f' --scale {scale}' if scale else ''}")


def _fetch(needs: Sequence[Need]) -> None:
    """Download what is missing, with a bar for each file."""
    from holdfast.benchmark.fetching import fetch

    columns = TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn()
    with Progress(*columns, console=Console(stderr=True)) as bars:
        tasks = {archive.name: bars.add_task(archive.name) for need in needs for archive in need.source.archives}
        for need in needs:
            fetch(
                need.source.archives,
                Path(need.location).expanduser(),
                lambda name, done, total: bars.update(tasks[name], completed=done, total=total),
            )
            typer.echo(f"fetched {need.location} ({need.source.licence})", err=True)
