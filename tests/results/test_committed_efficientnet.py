"""A trained ImageNet network from a package: what its committed result shows, and what it does not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

Runs = dict[str, dict[str, Any]]


@pytest.fixture(scope="module")
def runs(committed: Callable[[str], list[dict[str, Any]]]) -> Runs:
    """The runs by recipe."""
    return {run["recipe"]: run for run in committed("efficientnet-lite0.json")}


def percent(run: dict[str, Any]) -> float:
    return 100 * float(run["summary"]["accuracy"])


def test_source_and_batch_norm_come_first_and_all_met_the_same_stream(runs: Runs) -> None:
    order = sorted(runs, key=lambda name: runs[name]["manifest"]["place"])
    assert order[:2] == ["source", "batch_norm"]
    assert len(runs) == 13
    assert {run["summary"]["samples"] for run in runs.values()} == {7 * 48}
    for field in ("weights", "stream", "batch_size"):
        assert len({run["manifest"]["protocol"][field] for run in runs.values()}) == 1


def test_the_source_loses_a_third_of_its_accuracy_to_corruptions(runs: Runs) -> None:
    batches = np.array(runs["source"]["batch_accuracy"])
    assert 100 * batches[:2].mean() > 80  # the clean domain comes first
    assert 50 < 100 * batches[2:].mean() < 60


def test_no_method_differs_from_the_source_by_more_than_336_samples_can_tell(runs: Runs) -> None:
    source = percent(runs["source"])
    assert source == pytest.approx(59.2, abs=0.05)
    assert all(abs(percent(run) - source) < 2.5 for run in runs.values())
    assert max(runs, key=lambda name: percent(runs[name])) == "robust_bn"


def test_estimate_drop_resets_a_healthy_model_and_regret_does_not(runs: Runs) -> None:
    assert runs["fast tent + estimate_drop"]["resets"] == 12
    assert runs["fast tent + regret"]["resets"] == 0


def test_with_1000_classes_in_batches_of_24_only_dropout_on_features_estimates_the_accuracy(runs: Runs) -> None:
    def error(name: str, estimator: str) -> float:
        estimates = np.array(runs[name]["estimates"][estimator], float)
        return float(np.nanmean(np.abs(estimates - np.array(runs[name]["batch_accuracy"]))))

    assert error("source", "aetta features") < 0.2
    assert error("tent", "aetta features") < 0.15
    assert error("source", "anchored") > 0.4  # a limit of the anchor: a batch holds few of the classes
    assert error("source", "softmax_score") > 0.4
