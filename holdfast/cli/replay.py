"""`holdfast replay`: run a recorded stream, or what a service served, again with other recoveries."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli.options import AllowCode, AsJson, Device, MetricName, Out, Scale, checked_metric
from holdfast.cli.printing import console, print_table
from holdfast.display import WordTable


def replay(
    target: Annotated[
        str,
        typer.Argument(
            help="The folder of a run, a suite by name or as a YAML file, or the --state folder of a service."
        ),
    ],
    recoveries: Annotated[
        list[str] | None,
        typer.Option(
            "--recovery",
            "-r",
            help="Use this recovery: a name, or YAML such as {name: …, option: …}; may be repeated, by default all.",
        ),
    ] = None,
    methods: Annotated[
        list[str] | None,
        typer.Option("--method", "-m", help="Use this method on what a service served; may be repeated."),
    ] = None,
    tenant: Annotated[str | None, typer.Option(help="Replay this tenant of a service only.")] = None,
    job: Annotated[str, typer.Option(help="Choose the job of a suite whose name begins like this, e.g. tent.")] = "",
    scale: Scale = None,
    device: Device = None,
    allow_code: AllowCode = False,
    out: Out = Path("runs"),
    metric: MetricName = "error",
    as_json: AsJson = False,
) -> None:
    """Run a recorded stream again, with the same model, method and seed, through several recoveries.

    Of a service that was started with --store-inputs, run what it served through other methods or recoveries.
    """
    from holdfast.serve.replaying import is_served

    if is_served(target):
        _replay_served(Path(target), methods or [], recoveries or [], tenant, allow_code, metric, as_json)
        return
    if methods or tenant is not None:
        raise ValueError("--method and --tenant are for the --state folder of a service; a suite names its own recipes")
    from holdfast.benchmark import suite_names
    from holdfast.benchmark.foreign_code import admit_code
    from holdfast.benchmark.live import LiveProgress
    from holdfast.commands.replay import job_of
    from holdfast.commands.replay import replay as replay_run
    from holdfast.recovery import RECOVERIES
    from holdfast.report.scores import percent

    recorded = job_of(target, job=job, scale=scale, allow_code=allow_code)
    admit_code([recorded], target, allow_code or target in suite_names())
    recoveries, chosen = recoveries or RECOVERIES.names(), checked_metric(metric)
    with LiveProgress(1 + len(recoveries), metric=chosen) as live:
        replayed = replay_run(target, recoveries, out=out, job=job, scale=scale, device=device, progress=live)
    if as_json:
        typer.echo(json.dumps([asdict(one) for one in replayed]))
        return
    rows = []
    for one in replayed:
        scores = [f"{percent(share / 100, chosen):.1f}" for share in (one.accuracy, one.last_tenth)]
        batches = [str(reset.batch) for reset in one.resets]
        first = ", ".join(batches[:8]) + (" …" if len(batches) > 8 else "")
        rows.append([one.recovery, *scores, f"{one.passes:.2f}", str(len(batches)), first])
    titles = ["recovery", f"{chosen} %", "last tenth %", "× forward", "resets", "at batch"]
    print_table(WordTable("", titles, rows))
    for one in replayed:
        if one.resets:
            console.print(f"{one.recovery}, batch {one.resets[0].batch}: {one.resets[0].reason}", highlight=False)
    typer.echo(f"runs: {out / 'replay'}; next: holdfast report {out / 'replay'}")


def _replay_served(
    folder: Path,
    methods: list[str],
    recoveries: list[str],
    tenant: str | None,
    allow_code: bool,
    metric: str,
    as_json: bool,
) -> None:
    from holdfast.benchmark.foreign_code import check_model_code
    from holdfast.report.scores import percent
    from holdfast.serve.replaying import replay_served, served_model

    chosen = checked_metric(metric)
    check_model_code([served_model(folder)], str(folder), allow_code)
    with console.status("replaying") as waiting:
        replayed = replay_served(
            folder,
            methods=methods,
            recoveries=recoveries,
            tenant=tenant,
            announce=lambda name: waiting.update(f"{name} …"),
        )
    if as_json:
        typer.echo(json.dumps([asdict(one) for one in replayed]))
        return
    scores = ["" if one.accuracy is None else f"{percent(one.accuracy / 100, chosen):.1f}" for one in replayed]
    rows = [
        [one.name, score, f"{one.as_served:.1f}", str(one.resets)] for one, score in zip(replayed, scores, strict=True)
    ]
    print_table(WordTable("", ["recipe", f"{chosen} %", "same class as served %", "resets"], rows))
    labelled = (
        f"{chosen}: on the {replayed[0].labelled} that were labelled" if replayed[0].labelled else "no labels came back"
    )
    typer.echo(f"{replayed[0].samples} samples were served; {labelled}")
