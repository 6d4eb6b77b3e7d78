"""`holdfast verify`: run some stored runs again and compare."""

from __future__ import annotations

import json
import secrets
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli.options import AllowCode, AsJson, MetricName, checked_metric
from holdfast.cli.printing import print_table
from holdfast.display import WordTable


def verify(
    results: Annotated[Path, typer.Argument(help="A file of results, such as results/x.json, or a folder of runs.")],
    sample: Annotated[int, typer.Option(min=1, help="Run this many runs again, drawn at random.")] = 3,
    seed: Annotated[int | None, typer.Option(help="Draw them with this seed; by default another each time.")] = None,
    suite: Annotated[
        Path | None, typer.Option(help="Take the jobs from this suite; by default the YAML file beside the results.")
    ] = None,
    record: Annotated[
        Path | None, typer.Option(help="If all hold, note date and number of runs in this JSON file (leaderboard).")
    ] = None,
    allow_code: AllowCode = False,
    metric: MetricName = "error",
    as_json: AsJson = False,
) -> None:
    """Run randomly chosen runs again and compare them with what is stored; exit with 1 if one does not hold."""
    from holdfast.benchmark.live import LiveProgress
    from holdfast.commands.verify import note_verified
    from holdfast.commands.verify import verify as verify_runs
    from holdfast.report.scores import percent

    chosen = checked_metric(metric)
    seed = secrets.randbelow(2**31) if seed is None else seed
    with LiveProgress(sample, metric=chosen) as live:
        verified = verify_runs(results, sample=sample, seed=seed, suite=suite, allow_code=allow_code, progress=live)
    failed = [one for one in verified if one.problem is not None]
    if record is not None and not failed:
        note_verified(record, results.name, len(verified))
    if as_json:
        typer.echo(json.dumps({"seed": seed, "verified": [asdict(one) for one in verified]}))
        raise typer.Exit(1 if failed else 0)
    rows = []
    for one in verified:
        scores = [f"{percent(share / 100, chosen):.2f}" for share in (one.accuracy, one.again)]
        rows.append([one.name, *scores, one.promise, one.problem or "holds"])
    print_table(WordTable("", ["run", f"stored {chosen} %", "again %", "promised", "outcome"], rows))
    typer.echo(f"{len(verified) - len(failed)} of {len(verified)} hold; the same draw again: --seed {seed}")
    raise typer.Exit(1 if failed else 0)
