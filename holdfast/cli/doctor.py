"""`holdfast doctor`: check a network and its data before adapting."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from holdfast.cli.options import AsJson, CardFile
from holdfast.cli.printing import console, plain_table
from holdfast.options.spec import Spec

__all__ = ["doctor"]

COLOURS = {"ok": "green", "warn": "yellow", "fail": "red"}


def doctor(
    model: Annotated[str, typer.Argument(help="Check this model: a name, timm:…, hf:…, or YAML {name: …, option: …}.")],
    data: Annotated[
        str | None, typer.Argument(help="Check these clean data: a name, or YAML such as {name: digits, split: test}.")
    ] = None,
    batch_size: Annotated[int, typer.Option(min=1, help="Assume batches of this many samples in deployment.")] = 64,
    samples: Annotated[int, typer.Option(min=2, help="Look at this many samples.")] = 256,
    expected: Annotated[
        float | None, typer.Option(min=0, max=100, help="Compare with this accuracy, in percent.")
    ] = None,
    card: CardFile = None,
    costs: Annotated[bool, typer.Option(help="Measure a step of each method; --no-costs skips it.")] = True,
    as_json: AsJson = False,
) -> None:
    """Check a model and its data: scale, labels, layers, batch size, cost; exit with 1 if something must be mended."""
    from holdfast.data import DATASETS
    from holdfast.diagnosis import DEFAULT_METHODS
    from holdfast.diagnosis import doctor as check
    from holdfast.diagnosis.batches import labelled_batches
    from holdfast.models import MODELS

    diagnosis = check(
        Spec.parse(model).build(MODELS),
        None if data is None else labelled_batches(Spec.parse(data).build(DATASETS), batch_size, samples),
        methods=DEFAULT_METHODS if costs else (),
        expected_accuracy=None if expected is None else expected / 100,
        batch_size=batch_size,
        batches=samples,
        card=card,
    )
    if as_json:
        typer.echo(json.dumps(diagnosis.to_dict()))
    else:
        table = plain_table("check", "status", "observed", "remedy")
        for finding in diagnosis.findings:
            status = f"[{COLOURS[finding.status]}]{finding.status}[/]"
            table.add_row(finding.check, status, finding.observed, finding.remedy)
        console.print(table, "")
        if diagnosis.costs:
            table = plain_table("method", "ms per step", "× source", "peak MiB", "does not suit because")
            for cost in diagnosis.costs:
                numbers = (cost.milliseconds, cost.times_source, cost.peak_mib)
                table.add_row(
                    cost.method, *("" if value is None else f"{value:.4g}" for value in numbers), cost.refused or ""
                )
            console.print(table, "")
        counts = [sum(finding.status == status for finding in diagnosis.findings) for status in ("ok", "warn", "fail")]
        named = f"'{model}'" + (f" '{data}'" if data else "") + (f" --card '{card}'" if card else "")
        following = "mend what fails first" if counts[2] else f"holdfast recommend {named}"
        typer.echo(f"{counts[0]} ok, {counts[1]} warn, {counts[2]} fail; next: {following}")
    raise typer.Exit(1 if diagnosis.failed else 0)
