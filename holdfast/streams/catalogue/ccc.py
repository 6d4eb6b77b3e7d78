"""CCC, continuously changing corruptions: a walk at nearly constant accuracy of the source model."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path
from typing import Any

from holdfast.data import Dataset
from holdfast.data.crops import CropName
from holdfast.options.ranges import Count, JpegQuality, Percent
from holdfast.registry import UnknownNameError, nearest
from holdfast.streams.builder import STREAMS
from holdfast.streams.rendering import Renderer, Rendering
from holdfast.streams.stream import Stream
from holdfast.streams.walks.difficulty import OFFICIAL_TARGETS_PERCENT
from holdfast.streams.walks.transitions import Calibration
from holdfast.streams.walks.walk import Walk

# The official shards hold whole steps and at least 25 000 images, 7.5 million in all: 289 × 13 steps of 2000.
OFFICIAL_SAMPLES = {1000: 7_500_000, 2000: 7_514_000, 5000: 7_500_000}  # by images per step
OFFICIAL_SEEDS = (43, 44, 45)
DIFFICULTIES = {target: difficulty for difficulty, target in OFFICIAL_TARGETS_PERCENT.items()}
OFFICIAL_NAME = re.compile(r"baseline_(\d+)(?:\.0)?_transition\+speed_(\d+)_seed_(\d+)")

CCC_SETTINGS: dict[str, dict[str, Any]] = {
    f"ccc-{difficulty}-{images_per_step}-{seed}": {
        "difficulty": difficulty,
        "images_per_step": images_per_step,
        "seed": seed,
        "samples": samples,
        "storage_jpeg_quality": 85,
    }
    for difficulty, (images_per_step, samples), seed in product(
        OFFICIAL_TARGETS_PERCENT, OFFICIAL_SAMPLES.items(), OFFICIAL_SEEDS
    )
}


@STREAMS.register("ccc", citation="Press et al., NeurIPS 2023", needs_model=True)
def ccc(
    data: Dataset,
    *,
    calibration: Calibration | str | Path | None = None,
    calibrate: Callable[..., Calibration] | None = None,
    difficulty: str | None = None,
    target_percent: Percent | None = None,
    pairs: Count | Sequence[Sequence[str]] | None = None,
    pool: Sequence[str] | None = None,
    path_rule: str | None = None,
    pictures: Count | None = None,
    full_grid: bool = False,
    family: str | None = None,
    storage_jpeg_quality: JpegQuality | None = None,
    crop: CropName | None = None,
    images_per_step: Count = 1000,
    cycles: Count | None = 1,
    samples: Count | None = None,
    seed: int = 43,
    renderer: Renderer = "numpy",
    render_device: str = "cpu",
) -> Stream:
    """One corruption fades out while the next fades in, at an accuracy of the source model near a target.

    The options before `images_per_step` are for `calibrate`; other networks can be run on the calibration of one.

    Every image is randomly cropped and flipped before it is corrupted, anew at every position, by the rule that the
    calibration was measured with. For images of 128 px and more that is RandomResizedCrop, for smaller ones a shift by
    up to an eighth of the side.

    Args:
        data: labelled samples, such as `Digits()`.
        calibration: the paths, or the file of one, in whose name `{seed}` stands for the seed.
        calibrate: a function that makes a calibration from the data and the options; a suite passes that of its model.
        difficulty: "easy", "medium" or "hard".
        target_percent: accuracy of the source that the walk keeps to, from 0 to 100.
        pairs: number of pairs of corruptions, or the pairs.
        pool: names of corruptions to draw from.
        path_rule: how a path is chosen on the grid of severities.
        pictures: number of images that a point is measured on.
        full_grid: whether all 21 × 21 points are measured on all pictures, as the published matrices were (5000);
            otherwise it interpolates and stops when the mean of the path is known.
        family: severity tables; None: those that fit the size of the images.
        storage_jpeg_quality: quality at which images are stored as JPEG after their corruption; None: they are not.
        crop: rule of the crops; "none" omits them, which is not CCC as published.
        images_per_step: samples at each point of a path.
        cycles: repetitions of the walk; None: endlessly.
        samples: length of the stream, instead of `cycles`.
        seed: of pairs, samples and draws.
        renderer: "numpy", or "torch" for batches on a device. Calibrations are measured with "numpy", whose images
            differ by a level at most.
        render_device: of the torch renderer.
    """
    wanted = {
        "difficulty": difficulty,
        "target_percent": target_percent,
        "pairs": pairs,
        "pool": pool,
        "path_rule": path_rule,
        "pictures": pictures,
        "family": family,
        "storage_jpeg_quality": storage_jpeg_quality,
        "crop": crop,
    }
    wanted = {option: value for option, value in wanted.items() if value is not None}
    if full_grid:
        wanted |= {"coarse": False, "margin_percent": 0.0}
    if calibration is not None:
        if wanted:
            raise ValueError(
                f"{', '.join(wanted)} cannot be combined with calibration=, which sets them; leave them out"
            )
        calibrated = calibration if isinstance(calibration, Calibration) else _calibration_at(calibration, seed)
    elif calibrate is not None:
        if samples is not None and pairs is None:
            wanted["steps"] = -(-samples // images_per_step)
        calibrated = calibrate(data, seed=seed, **wanted)
    else:
        raise ValueError(
            "ccc needs a calibration; pass calibration=, made by holdfast.calibration.calibrate(model, data) or by "
            "`holdfast calibrate`"
        )
    if samples is None and cycles is not None:
        samples = cycles * calibrated.steps * images_per_step
    plan = Walk(calibrated, len(data.labels), images_per_step=images_per_step, length=samples, seed=seed)
    stored = calibrated.storage_jpeg_quality
    rendering = Rendering(
        seed,
        draws="position",
        family=calibrated.family,
        storage_jpeg_quality=stored,
        crop=calibrated.crop,
        renderer=renderer,
        device=render_device,
    )
    return Stream(plan, data, rendering)


def _calibration_at(path: str | Path, seed: int) -> Calibration:
    file = Path(str(path).replace("{seed}", str(seed)))
    if not file.is_file():
        raise ValueError(f"there is no calibration {file}; make it with `holdfast calibrate --seed {seed} --out …`")
    return Calibration.load(file)


def ccc_setting(name: str) -> dict[str, Any]:
    """Return the options of an official run by its official name or by ours, whose last parts may be left out.

    >>> ccc_setting("baseline_20_transition+speed_2000_seed_44") == ccc_setting("ccc-medium-2000-44")
    True
    >>> ccc_setting("ccc-hard") == ccc_setting("ccc-hard-1000-43")
    True
    """
    official = OFFICIAL_NAME.fullmatch(name)
    if official:
        target, *rest = official.groups()
        name = "-".join(["ccc", DIFFICULTIES.get(float(target), target), *rest])
    setting = next((options for full, options in CCC_SETTINGS.items() if f"{full}-".startswith(f"{name}-")), None)
    if setting is None or name == "ccc":
        raise UnknownNameError(f"unknown setting {name!r}; {nearest(name, CCC_SETTINGS)}")
    return dict(setting)
