"""What docs/results/estimators.md claims of CIFAR-10."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

METHODS = ("source", "tent", "eata", "sar", "cotta", "rotta", "sotta")
STREAMS = ("iid", "stay", "sorted")
Runs = dict[tuple[str, str], list[dict[str, Any]]]


@pytest.fixture(scope="module")
def runs(committed: Callable[[str], list[dict[str, Any]]]) -> Runs:
    """The runs of all seeds by stream and method."""
    groups: Runs = {}
    for run in committed("estimators-cifar10.json"):
        groups.setdefault((run["manifest"]["stream"]["label"], run["recipe"]), []).append(run)
    return groups


def off_by(run: dict[str, Any], estimator: str) -> Any:
    """Return how far the estimates of all batches are from the truth, in points; `nan` where they are unknown."""
    estimates = np.array(run["estimates"][estimator], float)
    return 100 * np.abs(estimates - run["batch_accuracy"])


def error(runs: Runs, stream: str, method: str, estimator: str) -> float:
    """Return the mean absolute error over batches and seeds."""
    return float(np.mean([np.nanmean(off_by(run, estimator)) for run in runs[stream, method]]))


def test_all_was_watched_under_one_protocol(runs: Runs) -> None:
    grid = {(stream, method) for stream in STREAMS for method in METHODS}
    assert set(runs) == grid | {("collapse", "tent"), ("collapse sorted", "tent")}
    for several in runs.values():
        assert sorted(run["manifest"]["seed"] for run in several) == [0, 1, 2]
    shared = [run["manifest"]["protocol"] for several in runs.values() for run in several]
    assert len({(protocol["weights"], protocol["batch_size"], protocol["threads"]) for protocol in shared}) == 1


def misses(runs: Runs, stream: str, against: str, *, share: float, plus: float) -> set[str]:
    """Return the methods for which the error of ours exceeds a share of another estimator's, plus some points."""
    return {
        method
        for method in METHODS
        if error(runs, stream, method, "anchored") > share * error(runs, stream, method, against) + plus
    }


def test_the_readme_states_the_range_of_its_error(runs: Runs) -> None:
    errors = [error(runs, stream, method, "anchored") for stream, method in runs]
    readme = (Path(__file__).resolve().parents[2] / "README.md").read_text()
    assert f"off by {min(errors):.0f} to {max(errors):.0f} points per batch of 64 on CIFAR-10" in readme


def test_on_independent_classes_ours_is_no_worse_than_aetta(runs: Runs) -> None:
    assert misses(runs, "iid", "aetta", share=1, plus=-8) == set()
    assert misses(runs, "iid", "aetta fitted", share=1, plus=1) == {"cotta"}
    assert misses(runs, "iid", "aetta fitted", share=1, plus=3) == set()


def test_on_correlated_classes_ours_has_half_of_its_error_or_nearly(runs: Runs) -> None:
    assert misses(runs, "sorted", "aetta", share=0.5, plus=0) == set()
    assert misses(runs, "stay", "aetta", share=0.5, plus=0) == {"tent", "eata", "sar"}
    assert misses(runs, "stay", "aetta", share=0.5, plus=0.6) == set()
    assert misses(runs, "stay", "aetta fitted", share=0.5, plus=0) == set()
    assert misses(runs, "sorted", "aetta fitted", share=0.5, plus=0) == {"cotta"}


@pytest.mark.parametrize(("stream", "onset"), [("collapse", 10), ("collapse sorted", 15)])
def test_a_collapse_is_followed_where_aetta_and_confidence_are_lost(runs: Runs, stream: str, onset: int) -> None:
    for run in runs[stream, "tent"]:
        script = run["manifest"]["protocol"]["collapse"]
        assert script["from_sample"] == 64 * onset
        assert np.mean(run["batch_accuracy"][-10:]) < 0.25
        assert np.nanmax(off_by(run, "anchored")[onset : onset + 10]) < 19
        assert np.nanmax(off_by(run, "anchored")[onset + 10 :]) < 15
        assert np.nanmax(off_by(run, "aetta")[onset:]) > 18
        assert np.mean(run["estimates"]["softmax_score"][-10:]) > 0.6


def test_intervals_hold_the_accuracy_of_most_batches_and_nothing_was_unknown(runs: Runs) -> None:
    within = {}
    for key, several in runs.items():
        bounds = np.concatenate([run["intervals"]["anchored"] for run in several])
        truth = np.concatenate([run["batch_accuracy"] for run in several])
        assert not np.isnan(bounds.astype(float)).any()
        within[key] = float(((bounds[:, 0] <= truth) & (truth <= bounds[:, 1])).mean())
    assert min(within.values()) == within["iid", "cotta"] > 0.7
    assert np.median(list(within.values())) > 0.9
