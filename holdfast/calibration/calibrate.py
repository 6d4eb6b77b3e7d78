"""Calibrate a walk in stages, each of which measures only what the next one needs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import islice
from pathlib import Path

from torch import nn

from holdfast.calibration.meter import CalibrationProgress, Meter
from holdfast.calibration.pairs import Pair, check_pairs, in_order, names_of, reaching, solve_pair
from holdfast.calibration.settings import CalibrationSettings
from holdfast.calibration.sharing import Execute, locked, measure_as_jobs, shared
from holdfast.calibration.store import default_cache
from holdfast.data import Dataset
from holdfast.display.bars import Bars
from holdfast.streams.walks.difficulty import reach_percent, walk_pairs
from holdfast.streams.walks.path import find_path
from holdfast.streams.walks.transitions import Calibration

Tell = Callable[[CalibrationProgress], None]

USUAL_PAIRS = 3  # the default number
USUAL_STEPS = 34  # of a pair, to estimate the remaining work


def calibrate(
    model: nn.Module,
    data: Dataset,
    settings: CalibrationSettings | None = None,
    *,
    cache: str | Path | None = None,
    progress: Tell | bool | None = None,
    execute: Execute | None = None,
) -> Calibration:
    """Calibrate a CCC walk (Press et al., NeurIPS 2023) for any model and data, with a fraction of its measurements.

    Corruptions of the pool that cannot reach the target are left out. For each pair, the accuracy is measured at whole
    severities, interpolated, and measured again on the resulting path, and images are added until the mean along the
    path is known well enough (see `CalibrationSettings`). All points share images and draws.

    Measurements are kept in `cache` (default: HOLDFAST_CACHE or ~/.cache/holdfast); the result does not depend on it.
    Several processes that share it, on any machines, each measure other pairs: start the same calibration in each job.
    Or let `execute(work, pairs)` yield the results of `work` for all pairs, wherever it runs them; an executor does so:
    `EXECUTORS["processes"].with_workers(4)` of `holdfast.benchmark.executors`.

    Images are measured under the random crops that the stream takes (`crop_for`); the clean accuracy, of which a
    difficulty is a share, is therefore that on cropped images. A terminal and a notebook show a bar, unless `progress`
    is False, or a function that is called instead.
    """
    settings = (settings or CalibrationSettings()).suited_to(data)
    with _shown(progress) as tell:
        folder = Path(cache) if cache is not None else default_cache()
        return _walked(Meter(model, data, settings, cache=folder, tell=tell), execute)


def _walked(meter: Meter, execute: Execute | None) -> Calibration:
    settings, chance = meter.settings, 100 / len(meter.data.class_names)
    with locked(meter, "alone", wait=True):  # other processes wait, and then read the measurements
        clean = meter.percent(())
    target = settings.target_for(clean, chance)
    if clean <= max(target, chance):
        raise ValueError(
            f"a clean accuracy of {clean:.1f} % is too low for the target of {target:.1f} % and chance of "
            f"{chance:.1f} %; pass a model trained on these classes, or a lower target"
        )
    left_out: dict[str, str] = {}
    pairs, steps = settings.pairs, settings.steps
    if pairs is None or isinstance(pairs, int):
        number = USUAL_PAIRS if pairs is None and steps is None else pairs
        with locked(meter, "alone", wait=True):
            names, left_out = reaching(meter, names_of(settings.pool or ()), reach_percent(target, clean, chance))
        likely = list(islice(walk_pairs(names, settings.seed), number or -(-(steps or 0) // USUAL_STEPS)))
        walk: Iterable[Pair] = likely if number else walk_pairs(names, settings.seed)
    else:
        walk = likely = check_pairs(pairs)
    meter.expect(len(likely))
    find = partial(find_path, settings.path_rule, target_percent=target)
    solve = partial(solve_pair, find=find, chance_percent=chance)
    if execute is not None:
        measure_as_jobs(meter, solve, likely, execute)
    return Calibration(
        in_order(walk, shared(meter, partial(solve, meter), likely), steps),
        target_percent=target,
        difficulty=settings.difficulty if settings.target_percent is None else None,
        clean_percent=round(clean, 4),
        chance_percent=round(chance, 4),
        path_rule=settings.path_rule,
        family=settings.family,
        storage_jpeg_quality=settings.storage_jpeg_quality,
        crop=meter.crop,
        model=meter.model_digest,
        data=meter.data_digest,
        seed=settings.seed if pairs is None or isinstance(pairs, int) else None,
        left_out=left_out,
    )


@contextmanager
def _shown(progress: Tell | bool | None) -> Iterator[Tell]:
    """Give the function that is told of each measurement."""
    if callable(progress) or progress is False:
        yield progress or (lambda _: None)
        return
    with Bars() as bars:
        task = bars.add("calibrating")

        def show(progress: CalibrationProgress) -> None:
            bars.update(
                task,
                name=f"calibrating {progress.pair or 'the pool'}",
                done=progress.done,
                total=progress.done + progress.left,
                note=f"{progress.saved} saved by sharing",
            )

        yield show
