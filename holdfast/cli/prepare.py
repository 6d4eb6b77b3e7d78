"""`holdfast prepare`: list what a suite still needs, and what it will cost."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.progress import DownloadColumn, TransferSpeedColumn

from holdfast.cli.options import AllowCode, AsJson, Scale, Settings, SuiteName, parse_settings
from holdfast.display.bars import Bars

if TYPE_CHECKING:
    from holdfast.options.needs import Need


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
    allow_code: AllowCode = False,
    as_json: AsJson = False,
) -> None:
    """List the data, weights and packages that a suite needs and that are missing, each once, and what it will cost."""
    from holdfast.options.suite_files import scale_names

    if scale is None and "paper" in scale_names(suite):
        scale = "paper"
    asked = parse_settings(settings)
    absent = [] if as_json or fetch else _list_missing(suite, scale, asked)  # before torch is imported
    from holdfast.benchmark import load_suite
    from holdfast.benchmark.preparation import cost_of, missing, rate_of

    jobs = load_suite(suite, asked, scale=scale, allow_code=allow_code).jobs()
    cost = cost_of(jobs)
    if fetch:
        _fetch([need for need in missing(jobs) if need.source.archives])
        absent = [] if as_json else _list_missing(suite, scale, asked)
    models = {job.model.label: job.model for job in jobs} if measure else {}
    if as_json:
        rates = {label: rate for label, model in models.items() if (rate := rate_of(model)) is not None}
        content = {"jobs": len(jobs), "missing": [asdict(need) for need in missing(jobs)], "cost": asdict(cost)}
        typer.echo(json.dumps({**content, "passes_per_second": rates}))
        return
    unknown = f", and {cost.unknown} jobs whose length the data decide" if cost.unknown else ""
    typer.echo(f"cost: {cost.samples:,} predictions, about {cost.passes:,} forward passes{unknown}")
    typer.echo(f"disk: about {cost.disk_mb:,.0f} MB of rows")
    for number, (label, model) in enumerate(models.items(), 1):
        typer.echo(f"measuring {label}, {number} of {len(models)} networks", err=True)
        rate = rate_of(model)
        if rate is None:
            typer.echo(f"time: {label} cannot be built here")
            continue
        hours = cost_of(job for job in jobs if job.model.label == label).passes / rate / 3600
        typer.echo(f"time: {label} at {rate:,.0f} passes per second on this machine: about {hours:,.1f} hours")
    ending = "get what is missing, then" if absent else "everything is there; next:"
    typer.echo(f"{ending} holdfast bench {suite}{f' --scale {scale}' if scale else ''}")


def _fetch(needs: Sequence[Need]) -> None:
    """Download what is missing, with a bar for each file."""
    from holdfast.benchmark.fetching import fetch

    with Bars(columns=(DownloadColumn(), TransferSpeedColumn())) as bars:
        tasks = {archive.name: bars.add(archive.name) for need in needs for archive in need.source.archives}
        for need in needs:
            fetch(
                need.source.archives,
                Path(need.location).expanduser(),
                lambda name, done, total: bars.update(tasks[name], done=done, total=total),
            )
            typer.echo(f"fetched {need.location} ({need.source.licence})", err=True)


def _list_missing(suite: str, scale: str | None, asked: dict[str, Any]) -> list[Need]:
    """Print what a suite needs and what is missing, from its file alone, and return that."""
    from holdfast.options.needs import needs_in
    from holdfast.options.plain_jobs import plain_jobs
    from holdfast.options.suite_files import scaled, suite_content

    try:
        jobs = list(plain_jobs(scaled(suite_content(suite), scale, asked)))
        needs = needs_in(jobs)
    except (KeyError, TypeError, AttributeError, ValueError):  # load_suite says what is wrong
        return []
    absent = [need for need in needs if not need.is_there]
    typer.echo(f"{len(jobs)} jobs; {len(needs)} things needed, {len(absent)} missing")
    for need in absent:
        typer.echo(f"- {need}")
    return absent
