"""`holdfast card`: measure the moments of a network's own source data, in a file that travels with its weights."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli.options import AsJson, ModelArgument
from holdfast.options.spec import Spec

BATCH_SIZE = 64  # in which samples go through the network; the card does not depend on it


def card(
    model: ModelArgument,
    data: Annotated[
        str,
        typer.Argument(
            help="Measure on data like those of training: a name, or YAML such as {name: digits, split: validation}."
        ),
    ],
    out: Annotated[Path, typer.Option("--out", help="Write the card to this file.")],
    samples: Annotated[int, typer.Option(min=2, help="Measure on this many samples; labels are not used.")] = 512,
    as_json: AsJson = False,
) -> None:
    """Measure what the default and the guard follow inputs from, on source data of your own, and write it to a file."""
    from holdfast.anchor import make_card
    from holdfast.data import DATASETS
    from holdfast.diagnosis.data import labelled_batches
    from holdfast.models import MODELS

    network = Spec.parse(model).build(MODELS)
    shown = [inputs for inputs, _ in labelled_batches(Spec.parse(data).build(DATASETS), BATCH_SIZE, samples)]
    if not shown:
        raise ValueError(f"the data {data} have no samples; name data that have, a few hundred are enough")
    made = make_card(network, shown, example=shown[0])
    out.parent.mkdir(parents=True, exist_ok=True)
    made.save(out)
    size, sites = out.stat().st_size, len(made.reference.sites)
    if as_json:
        facts = {"samples": made.reference.samples, "sites": sites, "bytes": size, "weights": made.weights}
        typer.echo(json.dumps({"card": str(out), "digest": made.digest, **facts}))
        return
    typer.echo(f"{made.reference.samples} samples at {sites} layers of the network {made.weights[:8]}")
    typer.echo(f"card: {out} ({size / 1000:.1f} kB, digest {made.digest[:8]})")
    typer.echo(f'next: holdfast.adapt(model, card="{out}")')
