"""Paths: equal to the official ones, and the squared rule compared with an exhaustive search."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from holdfast.streams.walks.path import LEVELS, check_path, find_path, official_path, squared_path

CASES = json.loads((Path(__file__).parent / "ccc_paths.json").read_text())["cases"]
MATRICES = {case["name"]: np.array(case["matrix"]) for case in CASES}


@pytest.mark.parametrize("case", CASES, ids=list(MATRICES))
def test_the_official_paths_are_found_exactly(case: dict[str, dict[str, list[list[int]]]]) -> None:
    for target, path in case["paths"].items():
        assert official_path(np.array(case["matrix"]), float(target)) == [tuple(point) for point in path]


def least_mean(deviation: NDArray[np.float64], start: int | None) -> float:
    """The smallest mean over all paths, from the smallest sum for every length."""
    sums = np.full((LEVELS, LEVELS, 2 * LEVELS), np.inf)  # from a point on, by length
    for i in range(LEVELS):
        for j in reversed(range(LEVELS)):
            sums[i, j, 1] = deviation[i, j] if i == 0 else np.inf
            if i > 0:
                ahead = sums[i - 1, j] if j == LEVELS - 1 else np.minimum(sums[i - 1, j], sums[i, j + 1])
                sums[i, j, 1:] = ahead[:-1] + deviation[i, j]
    starts = slice(1, LEVELS) if start is None else slice(start, start + 1)
    return float((sums[starts, 0, 1:] / np.arange(1, 2 * LEVELS)).min())


@pytest.mark.parametrize("name", MATRICES)
@pytest.mark.parametrize("start", [None, 7])
def test_no_path_deviates_less_than_the_squared_one(name: str, start: int | None) -> None:
    for target in (0.0, 20.0, 40.0):
        deviation = (MATRICES[name] - target) ** 2
        path = squared_path(MATRICES[name], target, start=start)
        check_path(path)
        assert start is None or path[0] == (start, 0)
        assert np.mean([deviation[point] for point in path]) == pytest.approx(least_mean(deviation, start))


def test_the_squared_rule_stays_nearer_step_by_step() -> None:
    matrix = MATRICES["logit_additive:gaussian_noise+motion_blur"]
    official, squared = (
        np.sqrt(np.mean([(matrix[point] - 20) ** 2 for point in find_path(rule, matrix, 20)]))
        for rule in ("official", "squared")
    )
    assert squared < 0.95 * official


def test_connected_paths_begin_where_the_one_before_has_ended() -> None:
    matrix = MATRICES["linear"]
    before = find_path("connected", matrix, 40)
    assert before == squared_path(matrix, 40)
    assert find_path("connected", matrix, 40, before)[0] == (before[-1][1], 0)
    assert find_path("connected", matrix, 40, [(1, 0), (0, 0)])[0] == (1, 0)


def test_what_is_no_matrix_rule_or_path_is_refused() -> None:
    with pytest.raises(ValueError, match=r"21 × 21 finite numbers in percent, got shape \(6, 6\)"):
        official_path(np.zeros((6, 6)), 20)
    with pytest.raises(ValueError, match="finite"):
        squared_path(np.full((21, 21), np.nan), 20)
    with pytest.raises(ValueError, match="start must be between 1 and 20, or None for the best level, got 0"):
        squared_path(np.zeros((21, 21)), 20, start=0)
    with pytest.raises(ValueError, match="path_rule must be one of official, squared, connected"):
        find_path("greedy", np.zeros((21, 21)), 20)  # type: ignore[arg-type]
    for points in ([], [(1, 1), (0, 1)], [(2, 0), (1, 0)], [(2, 0), (1, 1), (0, 1)], [(21, 0), *((0, 0),)]):
        with pytest.raises(ValueError, match="is not a path"):
            check_path(points)
