"""The pairs of corruptions of a walk, and the path of each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import product
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from holdfast.calibration.interpolate import WHOLE, interpolate_percent
from holdfast.calibration.meter import Meter, treatment_of
from holdfast.corruptions import CORRUPTIONS
from holdfast.streams.walks.path import LEVELS, GridPoint
from holdfast.streams.walks.transitions import Transition

Pair: TypeAlias = tuple[str, str]


def names_of(names: Iterable[str]) -> list[str]:
    """Return the full names of these corruptions; refuse those that a walk cannot use.

    >>> names_of(["contrast", "jpeg"])
    ['contrast', 'jpeg_compression']
    """
    corruptions = [CORRUPTIONS[name] for name in names]
    for corruption in corruptions:
        if corruption.whole_severities:
            raise ValueError(f"{corruption.name} has whole severities only, and a walk needs quarters; leave it out")
    return [corruption.name for corruption in corruptions]


def check_pairs(pairs: Sequence[Sequence[str]]) -> list[Pair]:
    """Return the named pairs with full names."""
    for pair in pairs:
        if isinstance(pair, str) or len(pair) != 2 or pair[0] == pair[1]:
            raise ValueError(
                f"a pair must be two different corruptions, e.g. ['gaussian_noise', 'contrast'], got {pair!r}"
            )
    return [(first, second) for first, second in map(names_of, pairs)]


def reaching(meter: Meter, names: Sequence[str], limit_percent: float) -> tuple[list[str], dict[str, str]]:
    """Return the corruptions that lower the accuracy to a limit at some severity, and a note on each other one."""
    kept, left_out = [], {}
    for name in names:
        percents = []
        for level in reversed(WHOLE[1:]):  # the strongest first, which nearly always decides
            percents.append(meter.percent(((name, level),)))
            if percents[-1] <= limit_percent:
                kept.append(name)
                break
        else:
            left_out[name] = f"leaves {min(percents):.1f} % at its strongest, above the limit of {limit_percent:.1f} %"
    if len(kept) < 2:
        raise ValueError(
            f"a walk needs two corruptions that lower the accuracy to {limit_percent:.1f} %, got {kept}; "
            'choose an easier difficulty, another pool or a stronger family ("224" is the strongest)'
        )
    return kept, left_out


def in_order(
    pairs: Iterable[Pair], solve: Callable[[Pair, Sequence[GridPoint]], Transition], steps: int | None = None
) -> tuple[Transition, ...]:
    """Return the transitions of the pairs in order, until they have `steps` steps; each is given the path before it."""
    solved: list[Transition] = []
    for pair in pairs:
        solved.append(solve(pair, solved[-1].points if solved else ()))
        if steps is not None and sum(len(transition.points) for transition in solved) >= steps:
            break
    return tuple(solved)


def solve_pair(
    meter: Meter,
    pair: Pair,
    before: Sequence[GridPoint],
    *,
    find: Callable[..., list[GridPoint]],
    chance_percent: float,
) -> Transition:
    """Return the path of a pair: measure a coarse grid, then the path, then more images until the margin is reached."""
    meter.turn_to(pair)
    settings = meter.settings
    levels = WHOLE if settings.coarse else range(LEVELS)
    grid: list[GridPoint] = list(product(levels, levels))
    measured = grid
    pictures = meter.rounds[0]
    while True:
        for refinement in range(settings.refinements + 1):
            outcomes = meter.outcomes([treatment_of(pair, point) for point in measured], pictures)
            matrix = _estimates(measured, outcomes, chance_percent)
            path = find(matrix, before=before)
            new = [point for point in path if point not in measured]
            if not new or refinement == settings.refinements:
                break
            measured = measured + new
        margin = margin_percent_of(outcomes[[point in path for point in measured]], meter.labels[:pictures])
        if margin <= settings.margin_percent or pictures == meter.rounds[-1]:
            break
        enough = pictures * (margin / settings.margin_percent) ** 2 if settings.margin_percent else np.inf
        pictures = next((count for count in meter.rounds if count >= enough), meter.rounds[-1])
        measured = [point for point in measured if point in grid or point in path]  # what left the path is dropped
    known = round(margin, 4) if np.isfinite(margin) else None
    return transition_of(pair, path, matrix, measured, margin_percent=known, pictures=pictures)


def transition_of(
    pair: Pair,
    path: Sequence[GridPoint],
    matrix_percent: NDArray[np.float64],
    measured: Iterable[GridPoint],
    *,
    margin_percent: float | None = None,
    pictures: int | None = None,
) -> Transition:
    """Return the record of a path over a matrix."""
    rounded = np.round(matrix_percent, 4)
    return Transition(
        *pair,
        points=tuple(path),
        expected_percent=tuple(float(rounded[point]) for point in path),
        margin_percent=margin_percent,
        pictures=pictures,
        matrix_percent=tuple(tuple(map(float, row)) for row in rounded),
        measured=tuple(sorted(measured)),
    )


def _estimates(
    measured: Sequence[GridPoint], outcomes: NDArray[np.bool_], chance_percent: float
) -> NDArray[np.float64]:
    """Return the accuracy at all points in percent, measured or interpolated."""
    percent = np.empty((LEVELS, LEVELS))
    where = tuple(np.array(measured).T)
    percent[where] = 100 * outcomes.mean(axis=1)
    dense = interpolate_percent(percent[np.ix_(WHOLE, WHOLE)], chance_percent, outcomes.shape[1])
    dense[where] = percent[where]
    return dense


def margin_percent_of(outcomes: NDArray[np.bool_], labels: NDArray[np.int64]) -> float:
    """Return the half width of the 95 % interval of the mean over (points, images).

    Points share their images, so that the images vary independently, each with its mean over the points. Images are
    stratified by class, so that only the variation within classes counts, if there are enough to estimate it.

    >>> bool(margin_percent_of(np.array([[0, 0, 1, 1]], bool), np.array([0, 0, 1, 1])) == 0)
    True
    """
    if not len(outcomes):
        return np.inf
    shares = outcomes.mean(axis=0)
    classes = np.unique(labels, return_inverse=True)[1]
    sizes = np.bincount(classes)
    if len(shares) >= 2 * len(sizes):
        centre, freedom = (np.bincount(classes, shares) / sizes)[classes], len(shares) - len(sizes)
    else:
        centre, freedom = np.full_like(shares, shares.mean()), len(shares) - 1
    variance = ((shares - centre) ** 2).sum() / max(1, freedom)
    return float(196 * np.sqrt(variance / len(shares)))
