"""`holdfast calibrate`: find a walk of corruptions at constant difficulty."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.cli.options import AsJson, Device, Executor, ModelText, Workers
from holdfast.cli.printing import console, print_table
from holdfast.display import WordTable
from holdfast.options.spec import Spec

if TYPE_CHECKING:
    from holdfast.calibration import CalibrationSettings
    from holdfast.streams import Calibration


def calibrate(
    model: ModelText = "digits_resnet",
    data: Annotated[
        str, typer.Option(help="Measure on these data: a name, or YAML such as {name: digits, split: validation}.")
    ] = "digits",
    difficulty: Annotated[
        str, typer.Option(help="Hold the accuracy that CCC calls easy, medium or hard for this model.")
    ] = "medium",
    target: Annotated[
        float | None, typer.Option(help="Hold this accuracy, in percent, instead of that of a difficulty.")
    ] = None,
    pairs: Annotated[int, typer.Option(min=1, help="Find this many transitions between two corruptions.")] = 3,
    steps: Annotated[
        int | None, typer.Option(min=1, help="Find enough transitions for this many steps, instead of --pairs.")
    ] = None,
    jpeg: Annotated[
        int | None, typer.Option(min=1, max=100, help="Store corrupted images as JPEG of this quality, as CCC: 85.")
    ] = None,
    images: Annotated[
        int, typer.Option("--images", "--pictures", min=2, help="Measure on at most this many images.")
    ] = 500,
    full_grid: Annotated[
        bool, typer.Option(help="Measure all 441 points of a pair on all images, as published, without interpolation.")
    ] = False,
    matrices: Annotated[
        Path | None,
        typer.Option(help="Use accuracies measured elsewhere, such as the official ones, from .npz or .json."),
    ] = None,
    family: Annotated[str, typer.Option(help="Use the severities for 32, 64 or 224 px.")] = "224",
    crop: Annotated[
        str,
        typer.Option(help="Crop images at random: auto (by their size), resized, shifted or none; audio has no crops."),
    ] = "auto",
    seed: Annotated[int, typer.Option(help="Draw the pairs with this seed; 43, 44 and 45 are the official ones.")] = 43,
    out: Annotated[
        Path, typer.Option(help="Write calibration.json and an image of each transition to this folder.")
    ] = Path("calibration"),
    executor: Executor = "serial",
    workers: Workers = 2,
    device: Device = None,
    as_json: AsJson = False,
) -> None:
    """Find a walk of changing corruptions (CCC) on which a model's accuracy stays near a target."""
    import numpy as np

    from holdfast.calibration import CalibrationSettings, calibration_of, import_matrices
    from holdfast.data import DATASETS
    from holdfast.machine.devices import Placement, resolve_device
    from holdfast.models import MODELS
    from holdfast.streams import walk_strip

    walk: dict[str, Any] = {"difficulty": difficulty, "target_percent": target, "seed": seed, "family": family}
    walk |= {"steps": steps, "pairs": None if steps else pairs}
    if matrices is not None:
        imported = calibration_of(import_matrices(matrices), storage_jpeg_quality=jpeg or 85, **walk)
        typer.echo(imported.save(out / "calibration.json"))
        return
    samples = Spec.parse(data).build(DATASETS)
    network = Placement(resolve_device(device or "cpu")).place(Spec.parse(model).build(MODELS))
    settings = CalibrationSettings(
        storage_jpeg_quality=jpeg,
        pictures=images,
        coarse=not full_grid,
        margin_percent=0.0 if full_grid else 1.0,
        crop=crop,  # type: ignore[arg-type]
        **walk,
    )
    calibration = calibrate_with_progress(network, samples, settings, executor=executor, workers=workers)
    path = calibration.save(out / "calibration.json")
    (image,) = samples.inputs(np.zeros(1, np.int64))
    for number in range(len(calibration.transitions)):
        walk_strip(calibration, image, transition=number).save(out / f"transition_{number}.png")
    if as_json:
        typer.echo(calibration.to_json())
        return
    rows = []
    for entry in calibration.transitions:
        accuracy = f"{entry.mean_percent:.1f} ± {entry.margin_percent:.1f}"
        name = f"{entry.first} → {entry.second}"
        rows.append([name, str(len(entry.points)), accuracy, str(entry.pictures), f"{len(entry.measured)} of 441"])
    console.print(f"target {calibration.target_percent:.1f} %, clean {calibration.clean_percent:.1f} %")
    print_table(WordTable("", ["transition", "steps", "accuracy %", "images", "measured"], rows))
    for name, note in calibration.left_out.items():
        console.print(f"left out: {name} {note}")
    typer.echo(path)


def calibrate_with_progress(
    model: Any, data: Any, settings: CalibrationSettings, *, executor: str = "serial", workers: int = 2
) -> Calibration:
    """Calibrate, with the pairs as jobs of an executor, until the user stops it."""
    from holdfast.benchmark.executors import EXECUTORS
    from holdfast.calibration import calibrate as calibrate_model
    from holdfast.machine.stopping import Stopped, stoppable

    execute = None if executor == "serial" else EXECUTORS[executor].with_workers(workers)
    try:
        with stoppable(signal.SIGINT, signal.SIGTERM):
            return calibrate_model(model, data, settings, execute=execute)
    except Stopped as stopped:
        typer.echo("holdfast: stopped; run the same command again to go on from the kept measurements", err=True)
        raise typer.Exit(130) from stopped
