"""Paths over a grid of two severities, along which the accuracy of the source model stays near a target."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

LEVELS = 21  # of each severity, 0 to 5 in quarters: severity = level / 4
GridPoint: TypeAlias = tuple[int, int]  # the levels of the first and of the second corruption
PathRule: TypeAlias = Literal["official", "squared", "connected"]


def official_path(accuracy_percent: NDArray[np.float64], target_percent: float) -> list[GridPoint]:
    """Return a path with a mean accuracy close to the target, by the official search of CCC.

    The path leads from the first corruption alone to the second alone, one level at a time. It is built from its end
    backwards, as in the official code (Press et al., NeurIPS 2023): each point is followed by the neighbour that brings
    the mean of the rest closer to the target; ties go to more of the second corruption. The search is greedy, so a
    better path may exist. Accuracies (21, 21) and target are in percent, as published.

    >>> official_path(np.add.outer(np.linspace(50, 0, 21), np.linspace(50, 0, 21)), 0)[20]
    (20, 20)
    """
    accuracy = _grid(accuracy_percent)
    total, length = accuracy.copy(), np.ones(accuracy.shape)  # of the path from each point on, the point included
    down = np.zeros(accuracy.shape, bool)
    for i in range(1, LEVELS):
        for j in reversed(range(LEVELS)):
            ahead = [(i - 1, j)] if j == LEVELS - 1 else [(i, j + 1), (i - 1, j)]  # ties: the first
            sums, counts = zip(*((total[point] + accuracy[i, j], length[point] + 1) for point in ahead), strict=True)
            best = int(np.argmin([abs(s / n - target_percent) for s, n in zip(sums, counts, strict=True)]))
            total[i, j], length[i, j] = sums[best], counts[best]
            down[i, j] = ahead[best] == (i - 1, j)
    start = 1 + int(np.argmin(np.abs(total[1:, 0] / length[1:, 0] - target_percent)))
    return _follow(down, start)


def squared_path(
    accuracy_percent: NDArray[np.float64], target_percent: float, *, start: int | None = None
) -> list[GridPoint]:
    """Return the path with the smallest mean squared deviation of its steps from the target, an exact minimum.

    `start` sets the level of the first corruption where the path begins, e.g. the end of the previous path.

    >>> flat = np.full((21, 21), 30.0)
    >>> flat[0] = 90  # the second corruption alone is harmless below its highest level
    >>> flat[0, 20] = 30
    >>> squared_path(flat, 30, start=2)[-1]
    (0, 20)
    """
    deviation = (_grid(accuracy_percent) - target_percent) ** 2
    if start is not None and not 1 <= start < LEVELS:
        raise ValueError(f"start must be between 1 and {LEVELS - 1}, or None for the best level, got {start}")
    # A mean is a ratio: minimise the sum of deviations minus the best mean so far, until the mean stops improving
    # (Dinkelbach, Management Science 1967). The smallest sum alone would favour short paths through the clean corner.
    path = _shortest_path(deviation, start)
    while True:
        mean = _mean_along(deviation, path)
        other = _shortest_path(deviation - mean, start)
        if _mean_along(deviation, other) >= mean:
            return path
        path = other


def _shortest_path(weight: NDArray[np.float64], start: int | None) -> list[GridPoint]:
    """Return the path with the smallest sum of weights, which may be negative."""
    cost = weight.copy()  # of the path from each point on
    down = np.zeros(cost.shape, bool)
    for i in range(1, LEVELS):
        for j in reversed(range(LEVELS)):
            right = cost[i, j + 1] if j + 1 < LEVELS else np.inf
            down[i, j] = cost[i - 1, j] < right
            cost[i, j] += min(cost[i - 1, j], right)
    return _follow(down, start or 1 + int(np.argmin(cost[1:, 0])))


def _mean_along(values: NDArray[np.float64], path: Sequence[GridPoint]) -> float:
    return float(np.mean([values[point] for point in path]))


def find_path(
    rule: PathRule, accuracy_percent: NDArray[np.float64], target_percent: float, before: Sequence[GridPoint] = ()
) -> list[GridPoint]:
    """Return the path of the named rule; "connected" is "squared" from the end of the path `before`."""
    check_rule(rule)
    if rule == "official":
        return official_path(accuracy_percent, target_percent)
    start = max(1, before[-1][1]) if before and rule == "connected" else None
    return squared_path(accuracy_percent, target_percent, start=start)


def check_rule(rule: str) -> None:
    """Raise for an unknown rule."""
    if rule not in get_args(PathRule):
        raise ValueError(f"path_rule must be one of {', '.join(get_args(PathRule))}, got {rule!r}")


def check_path(points: Sequence[GridPoint]) -> None:
    """Raise unless the points lead from the first corruption alone to the second alone, one level at a time.

    >>> check_path([(1, 0), (1, 1), (0, 1)])
    """
    moves = {(b[0] - a[0], b[1] - a[1]) for a, b in pairwise(points)}
    inside = all(0 <= level < LEVELS for point in points for level in point)
    if not points or not inside or points[0][1] != 0 or points[-1][0] != 0 or not moves <= {(-1, 0), (0, 1)}:
        raise ValueError(
            f"{list(points)} is not a path: it must begin at (level, 0), end at (0, level), and at each "
            f"step lower the first level or raise the second by 1, between 0 and {LEVELS - 1}"
        )


def _follow(down: NDArray[np.bool_], start: int) -> list[GridPoint]:
    points = [(start, 0)]
    while (point := points[-1])[0] > 0:
        points.append((point[0] - 1, point[1]) if down[point] else (point[0], point[1] + 1))
    return points


def _grid(accuracy_percent: NDArray[Any]) -> NDArray[np.float64]:
    grid = np.asarray(accuracy_percent, np.float64)
    if grid.shape != (LEVELS, LEVELS) or not np.isfinite(grid).all():
        raise ValueError(f"accuracies must be {LEVELS} × {LEVELS} finite numbers in percent, got shape {grid.shape}")
    return grid
