"""CCC, continuously changing corruptions: a walk on which a frozen model's accuracy stays near a target."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path
from typing import Any

from holdfast.data import Dataset
from holdfast.registry import UnknownNameError, nearest
from holdfast.streams.builder import STREAMS
from holdfast.streams.rendering import Rendering
from holdfast.streams.stream import Stream
from holdfast.streams.walks.difficulty import OFFICIAL_TARGETS_PERCENT
from holdfast.streams.walks.transitions import Calibration
from holdfast.streams.walks.walk import Walk

__all__ = ["CCC_SETTINGS", "ccc", "ccc_setting"]

# Shards of at least 25 000 images were filled with whole steps until there were 7.5 million: 289 × 13 steps of 2000.
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
    target_percent: float | None = None,
    pairs: int | Sequence[Sequence[str]] | None = None,
    pool: Sequence[str] | None = None,
    path_rule: str | None = None,
    pictures: int | None = None,
    family: str | None = None,
    storage_jpeg_quality: int | None = None,
    images_per_step: int = 1000,
    cycles: int | None = 1,
    samples: int | None = None,
    seed: int = 43,
) -> Stream:
    """Two corruptions at a time, one fading out while the next fades in, at an accuracy that stays near a target.

    The paths come from a `calibration`, or a file of one. Where there is none, `calibrate(data, …)` makes it from the
    options before `images_per_step`; a suite passes the one of its model. The walk is gone through `cycles` times,
    None never ends, or is repeated and cut until there are `samples` of them.
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
    }
    wanted = {option: value for option, value in wanted.items() if value is not None}
    if calibration is not None:
        if wanted:
            raise ValueError(f"the calibration has decided about {', '.join(wanted)} already; leave the option out")
        found = calibration if isinstance(calibration, Calibration) else Calibration.load(calibration)
    elif calibrate is not None:
        if samples is not None and pairs is None:
            wanted["steps"] = -(-samples // images_per_step)
        found = calibrate(data, seed=seed, **wanted)
    else:
        raise ValueError(
            "ccc needs to know its paths; pass calibration=, made by holdfast.calibration.calibrate(model, data) or "
            "`holdfast calibrate`"
        )
    if samples is None and cycles is not None:
        if cycles < 1:
            raise ValueError(f"cycles={cycles} makes no stream; pass at least 1, or None for an endless one")
        samples = cycles * found.steps * images_per_step
    plan = Walk(found, len(data.labels), images_per_step=images_per_step, length=samples, seed=seed)
    stored = found.storage_jpeg_quality
    return Stream(plan, data, Rendering(seed, draws="position", family=found.family, storage_jpeg_quality=stored))


def ccc_setting(name: str) -> dict[str, Any]:
    """Return the options of an official run by its own name, or by ours without what is as in the first of them.

    >>> ccc_setting("baseline_20_transition+speed_2000_seed_44") == ccc_setting("ccc-medium-2000-44")
    True
    >>> ccc_setting("ccc-hard") == ccc_setting("ccc-hard-1000-43")
    True
    """
    official = OFFICIAL_NAME.fullmatch(name)
    if official:
        target, *rest = official.groups()
        name = "-".join(["ccc", DIFFICULTIES.get(float(target), target), *rest])
    found = next((options for full, options in CCC_SETTINGS.items() if f"{full}-".startswith(f"{name}-")), None)
    if found is None or name == "ccc":
        raise UnknownNameError(f"unknown setting {name!r}; {nearest(name, CCC_SETTINGS)}")
    return dict(found)
