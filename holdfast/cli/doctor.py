"""`holdfast doctor`: check a network and its data before adapting."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from holdfast.cli.options import AsJson, CardFile, DataArgument, Device, ModelArgument
from holdfast.cli.printing import print_table
from holdfast.options.spec import Spec

COLOURS = {"ok": "green", "warn": "yellow", "fail": "red"}


def doctor(
    model: ModelArgument,
    data: DataArgument = "",
    batch_size: Annotated[int, typer.Option(min=1, help="Assume batches of this many samples in deployment.")] = 64,
    samples: Annotated[int, typer.Option(min=2, help="Look at this many samples.")] = 256,
    expected: Annotated[
        float | None, typer.Option(min=0, max=100, help="Compare with this accuracy, in percent.")
    ] = None,
    card: CardFile = None,
    device: Device = None,
    costs: Annotated[bool, typer.Option(help="Measure a step of each method; --no-costs skips it.")] = True,
    as_json: AsJson = False,
) -> None:
    """Check a model and its data: scale, labels, layers, batch size, cost; exit with 1 if something must be mended."""
    from holdfast.data import DATASETS
    from holdfast.diagnosis import DEFAULT_METHODS
    from holdfast.diagnosis import doctor as check
    from holdfast.diagnosis.data import labelled_batches
    from holdfast.machine.devices import Placement, resolve_device
    from holdfast.models import MODELS

    diagnosis = check(
        Placement(resolve_device(device or "cpu")).place(Spec.parse(model).build(MODELS)),
        labelled_batches(Spec.parse(data).build(DATASETS), batch_size, samples) if data else None,
        methods=DEFAULT_METHODS if costs else (),
        expected_accuracy=None if expected is None else expected / 100,
        batch_size=batch_size,
        batches=samples,
        card=card,
    )
    if as_json:
        typer.echo(json.dumps(diagnosis.to_dict()))
        raise typer.Exit(1 if diagnosis.failed else 0)
    for table in diagnosis.tables():
        print_table(table, COLOURS)
        typer.echo()
    named = f"'{model}'" + (f" '{data}'" if data else "") + (f" --card '{card}'" if card else "")
    following = "mend what fails first" if diagnosis.failed else f"holdfast recommend {named}"
    typer.echo(f"{diagnosis.conclusion}; next: {following}")
    raise typer.Exit(1 if diagnosis.failed else 0)
