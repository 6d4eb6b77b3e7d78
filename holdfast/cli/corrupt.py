"""`holdfast corrupt`: corrupt files, or draw what corruptions do."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from holdfast.cli.calibrate import calibrate_with_progress
from holdfast.registry import UnknownNameError

if TYPE_CHECKING:
    from PIL import Image

    from holdfast.audio import Waveform
    from holdfast.corruptions import Corruption
    from holdfast.corruptions.copies import AudioFormat
    from holdfast.streams import Calibration

Paths = list[Path] | None


def corrupt(
    paths: Annotated[
        Paths,
        typer.Argument(help="Image or audio files, or folders of them; for drawings by default an embedded sample."),
    ] = None,
    name: Annotated[
        str | None, typer.Option("--corruption", "-c", help="Apply this corruption; a sheet shows all by default.")
    ] = None,
    severity: Annotated[
        float, typer.Option("--severity", "-s", help="Apply it at this severity, 0 (none) to 5.")
    ] = 5.0,
    sheet: Annotated[
        bool, typer.Option("--sheet", help="Draw one image of corruptions × severities instead of writing copies.")
    ] = False,
    family: Annotated[
        str | None, typer.Option(help="Use the severities for 32, 64 or 224 px; by default those of the image size.")
    ] = None,
    sample_rate: Annotated[
        int | None, typer.Option(min=1, help="Resample audio copies to this rate in Hz; by default keep their own.")
    ] = None,
    audio_format: Annotated[
        str | None, typer.Option("--format", help="Write audio copies as wav or flac; by default as the originals.")
    ] = None,
    dataset: Annotated[
        str | None,
        typer.Option(help="Follow the rules of DHAuDS for us8, sc2, vs or rs; for a criterion such as ENQ-L1."),
    ] = None,
    noise: Annotated[
        Path | None, typer.Option(help="Take noise from this folder of its corpus; by default embedded noise.")
    ] = None,
    walk: Annotated[
        str | None,
        typer.Option(help="Animate a walk: ccc-easy, ccc-medium, ccc-hard, a run of CCC, or a calibration file."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Draw noise and other random parts with this seed.")] = 0,
    workers: Annotated[int, typer.Option(min=1, help="Use this many processes; the files do not depend on it.")] = 1,
    out: Annotated[
        Path, typer.Option(help="Write copies to this folder, a sheet to this PNG, a walk to this GIF or PNG file.")
    ] = Path("corrupted"),
) -> None:
    """Corrupt images or audio files, draw a contact sheet of corruptions and severities, or animate a walk.

    Copies that the manifest of the output folder lists are not written again.
    """
    from holdfast.corruptions import corrupt_files
    from holdfast.corruptions.audio.criteria import BOTH_WAYS, criterion_corruption

    if sheet or walk:
        path = out if out.suffix else out.with_suffix(".gif" if walk else ".png")
        path.parent.mkdir(parents=True, exist_ok=True)
        if walk:
            _draw_walk(walk, paths, seed, path)
        else:
            _draw_sheet(paths, name, family, seed, path)
        typer.echo(path)
        return
    if not paths or name is None:
        raise ValueError("name image or audio files and a --corruption, or draw all corruptions with --sheet")
    if audio_format not in (None, "flac", "wav"):
        raise UnknownNameError(f"unknown format {audio_format!r}; choose wav or flac")
    chosen: str | Corruption = name
    if dataset or noise:  # a criterion of DHAuDS by the rules of a data set, with noise from a folder
        chosen = criterion_corruption(name, dataset or BOTH_WAYS, noise and str(noise))
    copies = corrupt_files(
        paths,
        chosen,
        severity,
        out,
        seed=seed,
        family=family,
        sample_rate=sample_rate,
        audio_format=cast("AudioFormat | None", audio_format),
        workers=workers,
    )
    for path in copies:
        typer.echo(path)


def _draw_sheet(paths: Paths, name: str | None, family: str | None, seed: int, path: Path) -> None:
    from holdfast.corruptions import CORRUPTIONS, audio_sheet, contact_sheet
    from holdfast.corruptions.listing import kind_of

    kind = (kind_of(paths[0]) if paths else None) or (CORRUPTIONS[name].kind if name else "image")
    names = [name] if name else CORRUPTIONS.names(kind)
    if kind == "audio":
        waveform, sample_rate = _waveform(paths)
        drawn = audio_sheet(waveform, names, range(6), seed, sample_rate=sample_rate)
    else:
        drawn = contact_sheet(_image(paths), names, (1, 2, 3, 4, 5), seed, family)
    drawn.save(path)


def _draw_walk(walk: str, paths: Paths, seed: int, path: Path) -> None:
    from holdfast.streams import walk_strip, write_walk_gif

    image, calibration = _image(paths), _calibration(walk)
    if path.suffix == ".gif":
        write_walk_gif(path, calibration, image, seed=seed)
    else:
        walk_strip(calibration, image, seed=seed).save(path)


def _image(paths: Paths) -> Image.Image:
    """Return the first file as an image, or an embedded digit."""
    from PIL import Image

    from holdfast.data import Digits
    from holdfast.decode.image_files import decode_image

    return decode_image(paths[0]) if paths else Image.fromarray(Digits().images[0])


def _waveform(paths: Paths) -> tuple[Waveform, int]:
    """Return the first file as a waveform with its sample rate, or an embedded keyword."""
    from holdfast.audio import read_audio
    from holdfast.audio.decoding import open_audio
    from holdfast.data import Keywords

    if paths:
        return read_audio(paths[0]), open_audio(paths[0]).sample_rate
    data = Keywords()
    return data.waveforms[0], data.input_spec.sample_rate or 0


def _calibration(name: str) -> Calibration:
    """Return a calibration from its file, or a quick one of a CCC setting for the embedded digits."""
    from holdfast.calibration import CalibrationSettings
    from holdfast.data import Digits
    from holdfast.models import digits_resnet
    from holdfast.streams import Calibration, ccc_setting

    if name.endswith(".json"):
        return Calibration.load(name)
    setting = ccc_setting(name)
    settings = CalibrationSettings(difficulty=setting["difficulty"], seed=setting["seed"], pictures=100)
    return calibrate_with_progress(digits_resnet(), Digits("validation"), settings)
