"""Paths over a grid of two severities, along which a frozen model's accuracy stays near a target."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

__all__ = ["LEVELS", "GridCell", "PathRule", "check_path", "check_rule", "find_path", "official_path", "squared_path"]

LEVELS = 21  # of each severity, 0 to 5 in quarters: severity = level / 4
GridCell: TypeAlias = tuple[int, int]  # the levels of the first and of the second corruption
PathRule: TypeAlias = Literal["official", "squared", "connected"]


def official_path(accuracy_percent: NDArray[np.float64], target_percent: float) -> list[GridCell]:
    """Return the path whose mean accuracy comes close to the target, as the official search of CCC finds it.

    It goes from the first corruption alone to the second alone, one level at a time, and is chosen from its end
    backwards (Press et al., NeurIPS 2023, their code): each cell goes on to the neighbour that brings the mean of the
    rest nearer to the target, in doubt to more of the second corruption. That is greedy, so a better path may exist.
    Accuracies (21, 21) and target are in percent, as published.

    >>> official_path(np.add.outer(np.linspace(50, 0, 21), np.linspace(50, 0, 21)), 0)[20]
    (20, 20)
    """
    accuracy = _grid(accuracy_percent)
    total, length = accuracy.copy(), np.ones(accuracy.shape)  # of the path from each cell on, the cell included
    down = np.zeros(accuracy.shape, bool)
    for i in range(1, LEVELS):
        for j in reversed(range(LEVELS)):
            ahead = [(i - 1, j)] if j == LEVELS - 1 else [(i, j + 1), (i - 1, j)]  # in doubt, the first of them
            sums, counts = zip(*((total[cell] + accuracy[i, j], length[cell] + 1) for cell in ahead), strict=True)
            best = int(np.argmin([abs(s / n - target_percent) for s, n in zip(sums, counts, strict=True)]))
            total[i, j], length[i, j] = sums[best], counts[best]
            down[i, j] = ahead[best] == (i - 1, j)
    start = 1 + int(np.argmin(np.abs(total[1:, 0] / length[1:, 0] - target_percent)))
    return _follow(down, start)


def squared_path(
    accuracy_percent: NDArray[np.float64], target_percent: float, *, start: int | None = None
) -> list[GridCell]:
    """Return the path with the least mean of squared deviations of its steps from the target, which is exact.

    `start` fixes the level of the first corruption at which it begins, e.g. where the path before it has ended.

    >>> flat = np.full((21, 21), 30.0)
    >>> flat[0] = 90  # the second corruption alone does no harm, until it is at its strongest
    >>> flat[0, 20] = 30
    >>> squared_path(flat, 30, start=2)[-1]
    (0, 20)
    """
    deviation = (_grid(accuracy_percent) - target_percent) ** 2
    if start is not None and not 1 <= start < LEVELS:
        raise ValueError(f"a path cannot start at level {start}; pass 1 to {LEVELS - 1}, or None for the best one")
    # The least mean is a ratio: a shortest path that pays each step less by the mean so far, until it gets no better
    # (Dinkelbach, Management Science 1967). The least sum alone would cut through the clean corner to be short.
    path = _shortest_path(deviation, start)
    while True:
        mean = _mean_along(deviation, path)
        other = _shortest_path(deviation - mean, start)
        if _mean_along(deviation, other) >= mean:
            return path
        path = other


def _shortest_path(weight: NDArray[np.float64], start: int | None) -> list[GridCell]:
    """Return the path with the least sum of weights, which may be negative."""
    cost = weight.copy()  # of the path from each cell on
    down = np.zeros(cost.shape, bool)
    for i in range(1, LEVELS):
        for j in reversed(range(LEVELS)):
            right = cost[i, j + 1] if j + 1 < LEVELS else np.inf
            down[i, j] = cost[i - 1, j] < right
            cost[i, j] += min(cost[i - 1, j], right)
    return _follow(down, start or 1 + int(np.argmin(cost[1:, 0])))


def _mean_along(values: NDArray[np.float64], path: Sequence[GridCell]) -> float:
    return float(np.mean([values[cell] for cell in path]))


def find_path(
    rule: PathRule, accuracy_percent: NDArray[np.float64], target_percent: float, before: Sequence[GridCell] = ()
) -> list[GridCell]:
    """Return the path by the rule of that name; "connected" is "squared" from where the path `before` has ended."""
    check_rule(rule)
    if rule == "official":
        return official_path(accuracy_percent, target_percent)
    start = max(1, before[-1][1]) if before and rule == "connected" else None
    return squared_path(accuracy_percent, target_percent, start=start)


def check_rule(rule: str) -> None:
    """Raise for a rule that there is not."""
    if rule not in get_args(PathRule):
        raise ValueError(f"path_rule={rule!r} is unknown; choose one of {', '.join(get_args(PathRule))}")


def check_path(cells: Sequence[GridCell]) -> None:
    """Raise unless the cells lead from the first corruption alone to the second alone, one level at a time.

    >>> check_path([(1, 0), (1, 1), (0, 1)])
    """
    moves = {(b[0] - a[0], b[1] - a[1]) for a, b in pairwise(cells)}
    inside = all(0 <= level < LEVELS for cell in cells for level in cell)
    if not cells or not inside or cells[0][1] != 0 or cells[-1][0] != 0 or not moves <= {(-1, 0), (0, 1)}:
        raise ValueError(
            f"{list(cells)} is no path; begin at (level, 0), end at (0, level), and on every step lower the first "
            f"level or raise the second by 1, between 0 and {LEVELS - 1}"
        )


def _follow(down: NDArray[np.bool_], start: int) -> list[GridCell]:
    cells = [(start, 0)]
    while (cell := cells[-1])[0] > 0:
        cells.append((cell[0] - 1, cell[1]) if down[cell] else (cell[0], cell[1] + 1))
    return cells


def _grid(accuracy_percent: NDArray[Any]) -> NDArray[np.float64]:
    grid = np.asarray(accuracy_percent, np.float64)
    if grid.shape != (LEVELS, LEVELS) or not np.isfinite(grid).all():
        raise ValueError(f"the accuracies have shape {grid.shape}; pass {LEVELS} × {LEVELS} finite numbers, in percent")
    return grid
