"""`holdfast bench`: run a suite."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.cli.options import (
    AllowCode,
    AsJson,
    Device,
    Executor,
    MetricName,
    Out,
    Scale,
    Settings,
    SuiteName,
    Workers,
    checked_metric,
    parse_settings,
)
from holdfast.cli.printing import in_words, print_table
from holdfast.display import WordTable

if TYPE_CHECKING:
    from holdfast.benchmark import Job


def bench(
    suite: SuiteName,
    out: Out = Path("runs"),
    executor: Executor = "serial",
    workers: Workers = 2,
    scale: Scale = None,
    device: Device = None,
    precision: Annotated[
        str | None, typer.Option(help="Compute in float32 (default), or in bfloat16 or float16 under autocast.")
    ] = None,
    memory_format: Annotated[
        str | None, typer.Option(help="Lay out images as contiguous (default) or channels_last.")
    ] = None,
    together: Annotated[
        int, typer.Option(min=1, help="Run up to this many recipes of one stream side by side on the same batches.")
    ] = 10,
    render_workers: Annotated[
        int | None,
        typer.Option(min=0, help="Render batches ahead in this many processes; by default chosen by measurement."),
    ] = None,
    allow_code: AllowCode = False,
    metric: MetricName = "error",
    settings: Settings = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Measure a few batches, print the jobs and their cost, and run none.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Run a suite; finished runs are kept and interrupted runs resume."""
    placed = {"device": device, "precision": precision, "memory_format": memory_format}
    overrides = parse_settings(settings) | {key: value for key, value in placed.items() if value is not None}
    if dry_run:
        _print_jobs(suite, overrides, scale, as_json, together, allow_code)
        return
    folders = run_suite(
        suite,
        out,
        overrides,
        executor=executor,
        workers=workers,
        scale=scale,
        together=together,
        render_workers=render_workers,
        allow_code=allow_code,
        metric=metric,
    )
    if as_json:
        typer.echo(json.dumps([str(folder) for folder in folders]))
        return
    if folders:
        typer.echo(f"runs: {folders[0].parent} ({len(folders)} finished)")
        typer.echo(f"next: holdfast report {folders[0].parent}")


def run_suite(
    name: str,
    out: Path,
    overrides: Mapping[str, Any] | None = None,
    *,
    executor: str,
    workers: int,
    scale: str | None = None,
    allow_code: bool = False,
    metric: str = "error",
    **pace: Any,
) -> list[Path]:
    """Run a suite with live progress and return the folders of its runs."""
    from holdfast.benchmark import bench as run_jobs
    from holdfast.benchmark import load_suite, suite_names
    from holdfast.benchmark.foreign_code import admit_code
    from holdfast.benchmark.live import LiveProgress
    from holdfast.benchmark.preparation import check_ready
    from holdfast.machine.stopping import Stopped

    jobs = load_suite(name, overrides, scale=scale, allow_code=allow_code).jobs()
    admit_code(jobs, name, allow_code or name in suite_names())
    check_ready([job for job in jobs if not job.is_finished(out)])
    try:
        with LiveProgress(len(jobs), metric=checked_metric(metric)) as live:
            outcomes = run_jobs(jobs, out, executor=executor, workers=workers, progress=live, **pace)
    except Stopped as stopped:
        typer.echo(f"holdfast: {stopped}", err=True)
        raise typer.Exit(130) from stopped
    shares = [outcome.rendering_share for outcome in outcomes if outcome.rendering_share is not None]
    if shares:
        typer.echo(_bottleneck(sum(shares) / len(shares)), err=True)
    failed = [(outcome.job.name, outcome.error) for outcome in outcomes if outcome.error]
    if failed:
        kept = "" if len(failed) == len(outcomes) else ", the others are kept"
        raise RuntimeError(f"{len(failed)} of {len(outcomes)} runs failed{kept}; {failures(failed)}")
    elsewhere = sum(outcome.in_use for outcome in outcomes)
    if elsewhere:
        typer.echo(f"{elsewhere} runs are carried out by another process; nothing is left to do here", err=True)
    return [outcome.folder for outcome in outcomes if outcome.folder]


def _bottleneck(rendering: float) -> str:
    """Return in words which side of the pipeline was waited for.

    >>> _bottleneck(0.8)
    'bottleneck: rendering (80 % of the time); more --render-workers or exported shards (holdfast export) help'
    >>> _bottleneck(0.1)
    'bottleneck: the networks (rendering was waited for 10 % of the time)'
    """
    if rendering > 0.5:
        return (
            f"bottleneck: rendering ({100 * rendering:.0f} % of the time); more --render-workers or exported shards "
            "(holdfast export) help"
        )
    return f"bottleneck: the networks (rendering was waited for {100 * rendering:.0f} % of the time)"


def failures(failed: Sequence[tuple[str, str]]) -> str:
    """Return each error once, with the first run that it stopped and the number of the others.

    >>> failures([("tent-a", "no such file"), ("tent-b", "no such file"), ("sar-a", "too large")])
    'tent-a and 1 other: no such file; sar-a: too large'
    """
    stopped: dict[str, list[str]] = {}
    for job, error in failed:
        stopped.setdefault(error, []).append(job)
    return "; ".join(f"{jobs[0]}{_and_others(len(jobs) - 1)}: {error}" for error, jobs in stopped.items())


def _and_others(count: int) -> str:
    return "" if count == 0 else f" and {count} other{'s' if count > 1 else ''}"


def _print_jobs(
    name: str, overrides: Mapping[str, Any], scale: str | None, as_json: bool, together: int, allow_code: bool
) -> None:
    from holdfast.benchmark import load_suite, suite_names
    from holdfast.benchmark.foreign_code import runs_code
    from holdfast.benchmark.preparation import missing

    jobs = load_suite(name, overrides, scale=scale, allow_code=allow_code).jobs()
    if as_json:
        typer.echo(json.dumps([job.to_json() for job in jobs]))
        return
    for job in jobs:
        typer.echo(job.name)
    if missing(jobs):
        typer.echo("cost: not measured, because data, weights or packages are missing")
    elif any(runs_code(job.model) for job in jobs) and not (allow_code or name in suite_names()):
        typer.echo("cost: not measured, because the suite names models that run code; allow them with --allow-code")
    else:
        _print_cost(jobs, together)
    needs = f"holdfast prepare {name}{f' --scale {scale}' if scale else ''}"
    typer.echo(f"{len(jobs)} jobs, none was run; what they need: {needs}")


def _print_cost(jobs: Sequence[Job], together: int) -> None:
    """Measure the first batches of each recipe and print what all of its jobs will cost."""
    from holdfast.benchmark.forecast import forecast

    rows, costs = [], forecast(jobs, together)
    for cost in costs:
        numbers = (cost.hours + cost.rendering_hours, cost.core_hours, cost.gpu_hours, cost.disk_mb)
        words = [f"{number:,.2f}" for number in numbers]
        rows.append([cost.recipe, cost.model, str(cost.jobs), *words, cost.error or cost.bottleneck])
    titles = ["recipe", "model", "jobs", "hours", "core-hours", "GPU-hours", "disk MB", "bottleneck"]
    print_table(WordTable("", titles, rows))
    seconds = 3600 * sum(cost.hours + cost.rendering_hours for cost in costs)
    typer.echo(
        f"about {in_words(seconds)} one after the other on this machine, measured on a few batches of each recipe"
    )
