"""`holdfast train`: train a network."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli.options import AsJson
from holdfast.display.bars import Bars
from holdfast.options.spec import Spec

REFERENCE_NETWORKS = {"digits": "digits_resnet", "keywords": "keywords_amaut"}  # by the data set they are trained on


def train(
    data: Annotated[
        str,
        typer.Argument(
            help="A data set by name, or YAML such as {name: speech_commands, folder: …}; digits and keywords are in "
            "the package."
        ),
    ] = "digits",
    model: Annotated[
        str | None,
        typer.Option(
            help="Train this network: a name, or YAML such as {name: amaut, version: sc2}; by default the reference "
            "network of the embedded data."
        ),
    ] = None,
    procedure: Annotated[
        str | None,
        typer.Option(
            help="Train by this procedure: images, audio, cifar10, or a published one: amaut-, hubert- or conmix- and "
            "the data set (amaut-cochlscene, hubert-vocalsound, conmix-reefset, …); by default cifar10, images or "
            "audio, as the data are."
        ),
    ] = None,
    epochs: Annotated[
        int | None, typer.Option(min=1, help="Train for this many epochs; by default as many as the procedure has.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Draw weights, order and augmentations with this seed.")] = 0,
    noise: Annotated[
        Path | None, typer.Option(help="Add noise from this folder of the DEMAND corpus; by default embedded noise.")
    ] = None,
    start: Annotated[Path | None, typer.Option(help="Start from the weights in this safetensors file.")] = None,
    test: Annotated[
        str | None,
        typer.Option(help="Measure the accuracy on these data (a name or YAML), for data sets without a test split."),
    ] = None,
    device: Annotated[str, typer.Option(help="Train on this torch device, e.g. cpu or cuda.")] = "cpu",
    out: Annotated[Path, typer.Option(help="Write the weights to this folder or .safetensors file.")] = Path("weights"),
    as_json: AsJson = False,
) -> None:
    """Train a network: a reference network as its shipped weights were, or a network of DHAuDS as published."""
    from holdfast.data import DATASETS
    from holdfast.models import MODELS
    from holdfast.training import save_weights
    from holdfast.training import train as train_network

    samples = Spec.parse(data)
    model = model or REFERENCE_NETWORKS.get(samples.name)
    if model is None:
        known = DATASETS.name_of(DATASETS[samples.name])  # an unknown name is reported first
        raise ValueError(f"no network comes with {known}; name one: --model '{_suitable(DATASETS[samples.name])}'")
    network = Spec.parse(model)
    MODELS[network.name]  # an unknown name is reported before the data are read
    with Bars() as bars:
        task = bars.add(f"training {network.name}", total=epochs)

        def tell(done: int, total: int, loss: float) -> None:
            if not bars.visible:
                typer.echo(f"{done} of {total} epochs, loss {loss:.3f}", err=True)
            bars.update(task, done=done, total=total, note=f"loss {loss:.3f}")

        result = train_network(
            network,
            samples,
            procedure=procedure,
            epochs=epochs,
            seed=seed,
            noise=noise,
            start=start,
            test=test,
            device=device,
            progress=tell,
        )
    path = save_weights(result, out)
    if as_json:
        typer.echo(json.dumps({"weights": str(path), "accuracy": dict(result.accuracy)}))
        return
    shares = (f"{split} {100 * share:.2f} %" for split, share in result.accuracy.items())
    typer.echo(f"accuracy: {', '.join(shares)}")
    typer.echo(f"weights: {path}")


def _suitable(kind: type) -> str:
    """Return a network that can be trained on data of this class."""
    from holdfast.data.audio_arrays import InMemoryAudio
    from holdfast.data.audio_files import ListedAudio

    if isinstance(kind, type) and issubclass(kind, (InMemoryAudio, ListedAudio)):
        return "{name: small_amaut, num_classes: …}"
    return "{name: cifar_resnet, num_classes: …}"
