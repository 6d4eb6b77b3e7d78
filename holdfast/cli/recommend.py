"""`holdfast recommend`: rank methods for a model, its data and an expected stream."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli.options import AsJson, CardFile, DataArgument, Device, MetricName, ModelArgument, Out, checked_metric
from holdfast.cli.printing import console, in_words, print_table


def recommend(
    model: ModelArgument = "digits_resnet",
    data: DataArgument = "{name: digits, split: validation}",
    scenario: Annotated[
        str, typer.Option(help="Describe the stream in phrases, e.g. 'correlated classes, few domains'.")
    ] = "",
    class_stay: Annotated[
        float | None, typer.Option(help="Set the probability (0-1) that a class is followed by itself.")
    ] = None,
    class_imbalance: Annotated[
        float | None, typer.Option(help="Set how many times the most frequent class outnumbers the rarest.")
    ] = None,
    domain_stay: Annotated[
        float | None, typer.Option(help="Set the probability (0-1) that a domain is followed by itself.")
    ] = None,
    batch_size: Annotated[int | None, typer.Option(min=1, help="Set the batch size; 64 by default.")] = None,
    max_time: Annotated[
        float | None,
        typer.Option(help="Allow a step to take this multiple of the time without adapting; no limit by default."),
    ] = None,
    worth: Annotated[
        float, typer.Option(min=0, help="Stop a method that cannot be this many points better than a cheaper one.")
    ] = 1.0,
    severity: Annotated[float, typer.Option(min=0, max=5, help="Corrupt at this severity, 0 to 5.")] = 3,
    family: Annotated[
        str | None, typer.Option(help="Use the severities for 32, 64 or 224 px; by default those of the image size.")
    ] = None,
    samples: Annotated[int, typer.Option(min=1, help="Make streams of this many samples.")] = 2000,
    seeds: Annotated[int, typer.Option(min=1, help="Run each method with this many seeds.")] = 3,
    card: CardFile = None,
    device: Device = None,
    out: Out = Path("runs"),
    metric: MetricName = "error",
    as_json: AsJson = False,
) -> None:
    """Run methods on your model and data under the stream that you expect, and say which one to use, if any."""
    from holdfast.benchmark.live import LiveProgress
    from holdfast.commands.recommend import plan_trial, run_trial, scenario_of

    known = {"class_stay": class_stay, "class_imbalance": class_imbalance, "domain_stay": domain_stay}
    chosen = checked_metric(metric)
    trial = plan_trial(
        model,
        data,
        scenario_of(scenario, **known, batch_size=batch_size),
        severity=severity,
        family=family,
        samples=samples,
        seeds=seeds,
        device=device or "cpu",
        card=card,
    )
    typer.echo(
        f"{len(trial.candidates)} candidates, {seeds} streams of {samples} samples: at most about "
        f"{in_words(trial.seconds())} on one core; candidates that have lost stop early",
        err=True,
    )
    with LiveProgress(len(trial.jobs), metric=chosen) as live:
        budget = math.inf if max_time is None else max_time
        ranking = run_trial(trial, out, max_time=budget, worth=worth, tell=live)
    if as_json:
        typer.echo(json.dumps(ranking.to_dict()))
        return
    print_table(ranking.table(chosen), {"best": "green"})
    typer.echo()
    for choice in ranking.best_per_cost:
        console.print(f"best at up to {choice.time:.1f} times the time: {choice.name}, {choice.gain:+.1f} points")
    for name, reason in ranking.unfit.items():
        console.print(f"does not fit: {name} ({reason})")
    typer.echo(ranking.conclusion)
    typer.echo(f"runs: {out / 'recommend'}; next: holdfast report {out / 'recommend'}")
