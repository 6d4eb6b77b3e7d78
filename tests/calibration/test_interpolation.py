"""Interpolation: exact for additive logits, and close to measured matrices from a coarse grid."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from holdfast.calibration import interpolate_percent
from holdfast.calibration.interpolate import WHOLE
from holdfast.streams.walks.path import official_path

CASES = json.loads((Path(__file__).parents[1] / "streams" / "ccc_paths.json").read_text())["cases"]
SMOOTH = {case["name"]: np.array(case["matrix"]) for case in CASES if case["name"].startswith("logit_additive")}


def test_a_bilinear_logit_is_met_exactly() -> None:
    i, j = np.meshgrid(np.arange(21), np.arange(21), indexing="ij")
    logits = 3 - 0.2 * i - 0.15 * j - 0.01 * i * j
    matrix = 10 + 90 / (1 + np.exp(-logits))
    interpolated = interpolate_percent(matrix[np.ix_(WHOLE, WHOLE)], 10.0, 10**6)
    assert interpolated == pytest.approx(matrix, abs=1e-3)


@pytest.mark.parametrize("name", SMOOTH)
def test_curved_logits_are_met_to_a_point(name: str) -> None:
    """For matrices like those of a ResNet-50, whole severities suffice, and their path meets the target."""
    matrix = SMOOTH[name]
    interpolated = interpolate_percent(matrix[np.ix_(WHOLE, WHOLE)], 0.1, 500)
    assert np.sqrt(np.mean((interpolated - matrix) ** 2)) < 1
    for target in (20, 40):
        path, best = official_path(interpolated, target), official_path(matrix, target)
        means = [np.mean([matrix[point] for point in points]) for points in (path, best)]
        assert means[0] == pytest.approx(means[1], abs=1.5)


def test_chance_and_certainty_are_within_reach_and_never_beyond() -> None:
    interpolated = interpolate_percent(np.where(np.eye(6, dtype=bool), 100.0, 3.0), 10.0, 50)
    assert interpolated.min() >= 10
    assert interpolated.max() <= 100
    # Half an image of fifty is kept from both ends: 10 + 90 · 0.99 and 10 + 90 · 0.01.
    assert (interpolated[0, 0], interpolated[0, 4]) == (pytest.approx(99.1), pytest.approx(10.9))
