"""What docs/results/ccc.md claims of CIFAR-10."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest


@pytest.fixture(scope="module")
def walk(committed: Callable[[str], list[dict[str, Any]]]) -> dict[str, dict[str, Any]]:
    """The runs of CCC-Medium on CIFAR-10 by recipe."""
    return {run["recipe"]: run for run in committed("ccc-cifar10.json")}


def accuracy(run: dict[str, Any], *, last: float = 1.0) -> float:
    """Return the accuracy over the last share of a run, in percent."""
    windows = run["window_accuracy"]
    return 100 * float(np.mean(windows[-round(last * len(windows)) :]))


def test_the_walk_was_long_and_met_by_all_alike(walk: dict[str, dict[str, Any]]) -> None:
    whole = [walk[recipe] for recipe in ("source", "batch_norm", "tent", "eta", "rdumb", "rdumb-ccc", "rdumb-slow")]
    assert {run["summary"]["samples"] for run in whole} == {192_000}
    assert {run["manifest"]["stream"]["spec"]["crop"]["rule"] for run in whole} == {"shifted"}
    shared = [run["manifest"]["protocol"] for run in whole]
    assert len({(protocol["stream"], protocol["weights"], protocol["batch_size"]) for protocol in shared}) == 1


def test_the_frozen_model_is_held_near_its_target(walk: dict[str, dict[str, Any]]) -> None:
    target = walk["source"]["manifest"]["stream"]["spec"]["plan"]["target_percent"]
    assert accuracy(walk["source"]) == pytest.approx(target, abs=3)


def test_memory_is_flat(walk: dict[str, dict[str, Any]]) -> None:
    for run in walk.values():
        peaks = run["summary"]["peak_mib"]
        assert peaks["100%"] < 1.05 * peaks["50%"]  # batches kept for other recipes fill their 128 MiB before


def test_tent_ends_below_the_frozen_model(walk: dict[str, dict[str, Any]]) -> None:
    assert accuracy(walk["tent"], last=1 / 8) < accuracy(walk["source"], last=1 / 8) - 5


def test_rdumb_stays_above_the_frozen_model_to_the_end(walk: dict[str, dict[str, Any]]) -> None:
    for recipe in ("rdumb", "rdumb-ccc"):
        eighths = [np.reshape(walk[name]["window_accuracy"], (8, -1)).mean(1) for name in (recipe, "source")]
        assert (eighths[0] > eighths[1] + 0.1).all()


def test_eta_without_a_reset_ends_below_rdumb(walk: dict[str, dict[str, Any]]) -> None:
    assert accuracy(walk["eta"], last=1 / 8) < accuracy(walk["rdumb"], last=1 / 8) - 5


def since_reset(walk: dict[str, dict[str, Any]], recipe: str) -> Any:
    """Return how much better than batch_norm a recipe is, in points, by thousands of images since its last reset."""
    windows = np.array(walk[recipe]["window_accuracy"])
    samples = round(walk[recipe]["window_samples"])
    assert samples == 1000
    gain = 100 * (windows - walk["batch_norm"]["window_accuracy"][: len(windows)])
    intervals = gain[: len(gain) // 64 * 64].reshape(-1, 64)  # of 1000 batches of 64
    return intervals.mean(0)


def test_rdumb_gains_after_a_reset_and_loses_it_before_the_next_at_the_rate_for_cifar(
    walk: dict[str, dict[str, Any]],
) -> None:
    gain = since_reset(walk, "rdumb")
    assert gain[3:12].mean() > 2
    assert gain[50:].mean() < -5
    assert accuracy(walk["rdumb"]) < accuracy(walk["batch_norm"])


def test_rdumb_stays_above_batch_norm_at_the_rate_for_ccc(walk: dict[str, dict[str, Any]]) -> None:
    gain = since_reset(walk, "rdumb-slow")
    assert gain.mean() > 0.5
    assert gain.reshape(4, -1).mean(1).min() > 0


def test_the_filter_for_a_thousand_classes_lets_none_of_ten_pass(walk: dict[str, dict[str, Any]]) -> None:
    gain = np.subtract(walk["rdumb-ccc"]["window_accuracy"], walk["batch_norm"]["window_accuracy"])
    assert abs(100 * gain.mean()) < 0.01
