"""Which pairs of corruptions a walk has, and the path of each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import product
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from holdfast.calibration.interpolate import WHOLE, interpolate_percent
from holdfast.calibration.judge import Judge, chain_of
from holdfast.corruptions import CORRUPTIONS
from holdfast.streams.walks.path import LEVELS, GridCell
from holdfast.streams.walks.transitions import Transition

__all__ = [
    "Pair",
    "check_pairs",
    "in_order",
    "margin_percent_of",
    "names_of",
    "reaching",
    "solve_pair",
    "transition_of",
]

Pair: TypeAlias = tuple[str, str]


def names_of(names: Iterable[str]) -> list[str]:
    """Return the full names of corruptions that a walk can go through.

    >>> names_of(["contrast", "jpeg"])
    ['contrast', 'jpeg_compression']
    """
    found = [CORRUPTIONS[name] for name in names]
    for corruption in found:
        if corruption.whole_severities:
            raise ValueError(f"{corruption.name} has whole severities only, and a walk goes in quarters; leave it out")
    return [corruption.name for corruption in found]


def check_pairs(pairs: Sequence[Sequence[str]]) -> list[Pair]:
    """Return pairs that were named one by one, in full names."""
    for pair in pairs:
        if isinstance(pair, str) or len(pair) != 2 or pair[0] == pair[1]:
            raise ValueError(f"{pair!r} is no pair; name two corruptions, e.g. ['gaussian_noise', 'contrast']")
    return [(first, second) for first, second in map(names_of, pairs)]


def reaching(judge: Judge, names: Sequence[str], limit_percent: float) -> tuple[list[str], dict[str, str]]:
    """Return the corruptions that bring the accuracy down to a limit at some severity, and a note on all others."""
    kept, left_out = [], {}
    for name in names:
        percents = []
        for level in reversed(WHOLE[1:]):  # the strongest first, which nearly always settles it
            percents.append(judge.percent(((name, level),)))
            if percents[-1] <= limit_percent:
                kept.append(name)
                break
        else:
            left_out[name] = f"leaves {min(percents):.1f} % at its strongest, and {limit_percent:.1f} % must be reached"
    if len(kept) < 2:
        raise ValueError(
            f"a walk needs two corruptions, and only {kept} bring the accuracy down to {limit_percent:.1f} %; "
            'choose an easier difficulty, another pool or a stronger family ("224" is the strongest)'
        )
    return kept, left_out


def in_order(
    pairs: Iterable[Pair], solve: Callable[[Pair, Sequence[GridCell]], Transition], steps: int | None = None
) -> tuple[Transition, ...]:
    """Return the transitions of the pairs, each told the path before it, until there are so many steps."""
    found: list[Transition] = []
    for pair in pairs:
        found.append(solve(pair, found[-1].cells if found else ()))
        if steps is not None and sum(len(transition.cells) for transition in found) >= steps:
            break
    return tuple(found)


def solve_pair(
    judge: Judge,
    pair: Pair,
    before: Sequence[GridCell],
    *,
    find: Callable[..., list[GridCell]],
    chance_percent: float,
    margin_percent: float,
    refinements: int,
    coarse: bool,
) -> Transition:
    """Return the path of a pair: a coarse grid, then the cells on the path, then more pictures until it is known."""
    judge.turn_to(pair)
    levels = WHOLE if coarse else range(LEVELS)
    grid: list[GridCell] = list(product(levels, levels))
    measured = grid
    pictures = judge.rounds[0]
    while True:
        for refinement in range(refinements + 1):
            outcomes = judge.outcomes([chain_of(pair, cell) for cell in measured], pictures)
            matrix = _estimates(measured, outcomes, chance_percent)
            path = find(matrix, before=before)
            new = [cell for cell in path if cell not in measured]
            if not new or refinement == refinements:
                break
            measured = measured + new
        margin = margin_percent_of(outcomes[[cell in path for cell in measured]], judge.labels[:pictures])
        if margin <= margin_percent or pictures == judge.rounds[-1]:
            break
        enough = pictures * (margin / margin_percent) ** 2 if margin_percent else np.inf
        pictures = next((count for count in judge.rounds if count >= enough), judge.rounds[-1])
        measured = [cell for cell in measured if cell in grid or cell in path]  # no more of what the path has left
    known = round(margin, 4) if np.isfinite(margin) else None
    return transition_of(pair, path, matrix, measured, margin_percent=known, pictures=pictures)


def transition_of(
    pair: Pair,
    path: Sequence[GridCell],
    matrix_percent: NDArray[np.float64],
    measured: Iterable[GridCell],
    *,
    margin_percent: float | None = None,
    pictures: int | None = None,
) -> Transition:
    """Return the record of a path over a matrix."""
    rounded = np.round(matrix_percent, 4)
    return Transition(
        *pair,
        cells=tuple(path),
        expected_percent=tuple(float(rounded[cell]) for cell in path),
        margin_percent=margin_percent,
        pictures=pictures,
        matrix_percent=tuple(tuple(map(float, row)) for row in rounded),
        measured=tuple(sorted(measured)),
    )


def _estimates(measured: Sequence[GridCell], outcomes: NDArray[np.bool_], chance_percent: float) -> NDArray[np.float64]:
    """Return the accuracy in all cells, in percent: as measured, and interpolated elsewhere."""
    percent = np.empty((LEVELS, LEVELS))
    where = tuple(np.array(measured).T)
    percent[where] = 100 * outcomes.mean(axis=1)
    dense = interpolate_percent(percent[np.ix_(WHOLE, WHOLE)], chance_percent, outcomes.shape[1])
    dense[where] = percent[where]
    return dense


def margin_percent_of(outcomes: NDArray[np.bool_], labels: NDArray[np.int64]) -> float:
    """Return the half width of the 95 % interval of the mean over (cells, pictures).

    Cells share their pictures, so it is the pictures that vary independently, each with its mean over the cells. They
    were chosen class by class, so only their variation within classes counts, where there are enough to tell it.

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
