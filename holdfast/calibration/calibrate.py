"""Calibrate a walk in stages, each of which measures only what the next one needs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import islice
from pathlib import Path

from torch import nn

from holdfast.calibration.judge import Judge, Progress
from holdfast.calibration.pairs import Pair, check_pairs, in_order, names_of, reaching, solve_pair
from holdfast.calibration.sharing import Execute, locked, measure_as_jobs, shared
from holdfast.calibration.store import default_cache
from holdfast.corruptions import FAMILIES
from holdfast.data import Dataset, crop_for
from holdfast.data.crops import CropName
from holdfast.streams.walks.difficulty import POOLS, check_difficulty, reach_percent, target_percent_of, walk_pairs
from holdfast.streams.walks.path import PathRule, check_rule, find_path
from holdfast.streams.walks.transitions import Calibration

__all__ = ["calibrate"]

USUAL_PAIRS = 3  # the default number
AUDIO_POOL = ("white_noise", "enq", "end1", "end2", "ensc", "time_stretch", "pitch_shift")
USUAL_STEPS = 34  # of a pair, to estimate the remaining work


def calibrate(
    model: nn.Module,
    data: Dataset,
    *,
    difficulty: str = "medium",
    target_percent: float | None = None,
    pairs: int | Sequence[Sequence[str]] | None = None,
    steps: int | None = None,
    pool: Sequence[str] | None = None,
    path_rule: PathRule = "official",
    seed: int = 43,
    family: str | None = "224",
    storage_jpeg_quality: int | None = None,
    crop: CropName = "auto",
    pictures: int = 500,
    picture_seed: int = 0,
    margin_percent: float = 1.0,
    refinements: int = 2,
    coarse: bool = True,
    cache: str | Path | None = None,
    progress: Callable[[Progress], None] | None = None,
    execute: Execute | None = None,
) -> Calibration:
    """Calibrate a CCC walk (Press et al., NeurIPS 2023) for any model and data, with a fraction of its measurements.

    The target accuracy is that of a `difficulty` for this model (`target_percent_of`), or `target_percent` itself.
    Corruptions of the `pool`, by default the official one, that cannot reach the target are left out. `seed` draws the
    pairs: three by default, `pairs` of them, or enough for `steps` steps. `pairs` may also name them:
    [["fog", "snow"], …].

    For each pair, the accuracy is measured at whole severities (`coarse=False`: at all 21 × 21 points), interpolated,
    and measured again on the resulting path, up to `refinements` times. Images are added, at most `pictures`, until the
    mean along the path is known to ± `margin_percent` (95 %, over images). All points share images and draws.
    Measurements are kept in `cache` (default: HOLDFAST_CACHE or ~/.cache/holdfast); the result does not depend on it.
    Several processes that share it, on any machines, each measure other pairs: start the same calibration in each job.
    Or let `execute(work, pairs)` yield the results of `work` for all pairs, wherever it runs them; an executor does so:
    `EXECUTORS["processes"].with_workers(4)` of `holdfast.benchmark.executors`.

    Images are measured under the random crops that the stream takes (`crop_for`); the clean accuracy, of which a
    difficulty is a share, is therefore that on cropped images.

    The severities are those of the 224 px tables, the only ones for which CCC defines them, whatever the image size.
    Audio has a single table and a pool of its own, which are ours.
    """
    if data.input_spec.kind == "audio":
        family, pool = None, pool or AUDIO_POOL
    check_rule(path_rule)
    check_difficulty(difficulty)
    if family not in (None, *FAMILIES):
        raise ValueError(f"unknown family {family!r} of severity tables; choose one of {', '.join(FAMILIES)}")
    if target_percent is not None and not 0 <= target_percent <= 100:  # nan is not either
        raise ValueError(f"target_percent must be between 0 and 100, got {target_percent}")
    if pictures < 2 or pairs in (0, []) or (steps is not None and steps < 1):
        raise ValueError(
            f"calibration needs pictures=2 or more and at least 1 pair and step, got {pictures}, {pairs} and {steps}"
        )
    judge = Judge(
        model,
        data,
        pictures=pictures,
        seed=picture_seed,
        family=family,
        storage_jpeg_quality=storage_jpeg_quality,
        crop=crop_for(data, crop),
        cache=Path(cache) if cache is not None else default_cache(),
        tell=progress or (lambda _: None),
    )
    chance = 100 / len(data.class_names)
    with locked(judge, "alone", wait=True):  # other processes wait, and then find the measurements
        clean = judge.percent(())
    target = target_percent_of(difficulty, clean, chance) if target_percent is None else float(target_percent)
    if clean <= max(target, chance):
        raise ValueError(
            f"a clean accuracy of {clean:.1f} % is too low for the target of {target:.1f} % and chance of "
            f"{chance:.1f} %; pass a model trained on these classes, or a lower target"
        )
    left_out: dict[str, str] = {}
    if pairs is None or isinstance(pairs, int):
        number = USUAL_PAIRS if pairs is None and steps is None else pairs
        names = names_of(pool or POOLS["easy" if target_percent is not None else difficulty])
        with locked(judge, "alone", wait=True):
            names, left_out = reaching(judge, names, reach_percent(target, clean, chance))
        judge.pairs_left = number or -(-(steps or 0) // USUAL_STEPS)
        likely = list(islice(walk_pairs(names, seed), judge.pairs_left))
        walk: Iterable[Pair] = likely if number else walk_pairs(names, seed)
    else:
        walk = likely = check_pairs(pairs)
        judge.pairs_left = len(likely)
    solve = partial(
        solve_pair,
        find=partial(find_path, path_rule, target_percent=target),
        chance_percent=chance,
        margin_percent=margin_percent,
        refinements=refinements,
        coarse=coarse,
    )
    if execute is not None:
        measure_as_jobs(judge, solve, likely, execute)
    return Calibration(
        in_order(walk, shared(judge, partial(solve, judge), likely), steps),
        target_percent=target,
        difficulty=difficulty if target_percent is None else None,
        clean_percent=round(clean, 4),
        chance_percent=round(chance, 4),
        path_rule=path_rule,
        family=family,
        storage_jpeg_quality=storage_jpeg_quality,
        crop=judge.crop,
        model=judge.model_digest,
        data=judge.data_digest,
        seed=seed if pairs is None or isinstance(pairs, int) else None,
        left_out=left_out,
    )
