"""`holdfast recommend`: rank methods for a model, its data and an expected stream."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli import completing
from holdfast.cli.options import AsJson, CardFile, Device, MetricName, Out, checked_metric
from holdfast.cli.printing import console, plain_table

__all__ = ["recommend"]


def recommend(
    model: Annotated[
        str,
        typer.Argument(
            help="Rank methods for this model: a name, timm:…, hf:…, or YAML {name: …, option: …}.",
            autocompletion=completing.models,
        ),
    ] = "digits_resnet",
    data: Annotated[
        str,
        typer.Argument(
            help="Make the stream from your validation data: a name, or YAML such as {name: digits, split: validation}."
        ),
    ] = "{name: digits, split: validation}",
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
    from holdfast.commands.recommend import CANDIDATES, scenario_of
    from holdfast.commands.recommend import recommend as rank
    from holdfast.report.scores import percent

    known = {"class_stay": class_stay, "class_imbalance": class_imbalance, "domain_stay": domain_stay}
    chosen = checked_metric(metric)
    with LiveProgress(len(CANDIDATES) * seeds, metric=chosen) as live:
        recommendation = rank(
            model,
            data,
            scenario_of(scenario, **known, batch_size=batch_size),
            out=out,
            severity=severity,
            family=family,
            samples=samples,
            seeds=seeds,
            device=device or "cpu",
            card=card,
            max_time=math.inf if max_time is None else max_time,
            progress=live,
        )
    if as_json:
        typer.echo(json.dumps(recommendation.to_dict()))
        return
    table = plain_table("method", f"{chosen} %", "gain over source", "95 % interval", "time ×")
    for choice in recommendation.choices:
        interval = f"{choice.low:+.1f} … {choice.high:+.1f}"
        cost = f"{choice.time:.1f}" if choice.affordable else f"{choice.time:.1f}, over budget"
        table.add_row(
            choice.name, f"{percent(choice.accuracy / 100, chosen):.1f}", f"{choice.gain:+.1f}", interval, cost
        )
    console.print(table)
    stopped = [choice.name for choice in recommendation.choices if choice.seeds < seeds]
    if stopped:
        console.print(f"stopped early, because another was better: {', '.join(stopped)}")
    for choice in recommendation.best_per_cost:
        console.print(f"best at up to {choice.time:.1f} times the time: {choice.name}, {choice.gain:+.1f} points")
    for name, reason in recommendation.unfit.items():
        console.print(f"does not fit: {name} ({reason})")
    typer.echo(recommendation.conclusion)
    typer.echo(f"runs: {out / 'recommend'}; next: holdfast report {out / 'recommend'}")
