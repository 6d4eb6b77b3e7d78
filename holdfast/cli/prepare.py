"""`holdfast prepare`: list what a suite still needs, and what it will cost."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated

import typer

from holdfast.cli.options import AllowCode, AsJson, Scale, Settings, SuiteName, parse_settings

__all__ = ["prepare"]


def prepare(
    suite: SuiteName,
    scale: Scale = None,
    settings: Settings = None,
    measure: Annotated[
        bool, typer.Option(help="Measure the speed of networks that can be built here, to estimate hours.")
    ] = True,
    allow_code: AllowCode = False,
    as_json: AsJson = False,
) -> None:
    """List the data, weights and packages that a suite needs and that are missing, each once, and what it will cost."""
    from holdfast.benchmark import load_suite
    from holdfast.benchmark.preparation import cost_of, needs_of, rate_of

    if scale is None and "paper" in load_suite(suite, allow_code=allow_code).scales:
        scale = "paper"
    jobs = load_suite(suite, parse_settings(settings), scale=scale, allow_code=allow_code).jobs()
    needs, cost = needs_of(jobs), cost_of(jobs)
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
