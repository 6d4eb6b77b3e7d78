"""What docs/results/recovery.md claims of recoveries on CIFAR-10."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

Runs = dict[tuple[str, str], dict[str, Any]]
HEALTHY = [("stay", "source"), ("sorted", "source"), ("stay, RoTTA", "rotta"), ("stay, TENT", "tent")]


@pytest.fixture(scope="module")
def runs(committed: Callable[[str], list[dict[str, Any]]]) -> Runs:
    """The runs by stream and recipe."""
    return {(run["manifest"]["stream"]["label"], run["recipe"]): run for run in committed("recovery-cifar10.json")}


def last_tenth(run: dict[str, Any]) -> float:
    batches = run["batch_accuracy"]
    return 100 * float(np.mean(batches[-len(batches) // 10 :]))


def false_resets(runs: Runs, recovery: str) -> tuple[int, int]:
    """Return the resets of healthy models on correlated streams, and the batches."""
    healthy = [runs[stream, f"{method} + {recovery}"] for stream, method in HEALTHY]
    return sum(run["resets"] for run in healthy), sum(len(run["batch_accuracy"]) for run in healthy)


def test_one_network_met_all_of_it(runs: Runs) -> None:
    assert len(runs) == 5 + 4 * 3
    assert len({run["manifest"]["protocol"]["weights"] for run in runs.values()}) == 1
    assert {len(runs["long", recipe]["batch_accuracy"]) for recipe in ("source", "never", "regret")} == {300}


def test_tent_that_never_goes_back_ends_far_below_the_frozen_model(runs: Runs) -> None:
    assert last_tenth(runs["long", "never"]) < last_tenth(runs["long", "source"]) - 15


def test_a_slow_decline_becomes_usual_and_adaptive_does_not_see_it(runs: Runs) -> None:
    assert runs["long", "adaptive"]["resets"] == 0
    assert last_tenth(runs["long", "adaptive"]) == last_tenth(runs["long", "never"])


@pytest.mark.parametrize("recovery", ["estimate_drop", "regret"])
def test_by_our_estimator_it_ends_above_the_frozen_model(runs: Runs, recovery: str) -> None:
    assert last_tenth(runs["long", recovery]) > last_tenth(runs["long", "source"]) + 10


def test_only_regret_leaves_healthy_models_alone(runs: Runs) -> None:
    rates = {recovery: np.divide(*false_resets(runs, recovery)) for recovery in ("adaptive", "estimate_drop", "regret")}
    assert rates["regret"] == 0
    assert 1 / 200 < rates["adaptive"] < 1 / 100
    assert rates["estimate_drop"] > 1 / 20


def test_the_estimated_gain_follows_the_decline(runs: Runs) -> None:
    estimated = [gain for gain in runs["long", "never"]["gains"]["anchored"] if gain is not None]
    assert np.mean(estimated[:4]) > -0.03
    assert np.mean(estimated[-4:]) < -0.25
