"""What is claimed in the documents stands in the committed results, with the protocol it was measured under."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from holdfast.streams.unitta import UNITTA_MAIN, UNITTA_SETTINGS

RESULTS = Path(__file__).resolve().parents[1] / "results"
pytestmark = pytest.mark.skipif(not RESULTS.exists(), reason="the results are not beside the tests")


def read(name: str) -> list[dict[str, Any]]:
    """Return the runs of a committed result, each with its whole manifest."""
    content = json.loads((RESULTS / name).read_text())
    for run in content["runs"]:
        manifest = run["manifest"]
        run["manifest"] = {
            key: content["parts"].get(value, value) if isinstance(value, str) else value
            for key, value in manifest.items()
        }
    runs: list[dict[str, Any]] = content["runs"]
    return runs


@pytest.fixture(scope="module")
def walk() -> dict[str, dict[str, Any]]:
    """The runs of CCC-Medium on CIFAR-10 by recipe."""
    return {run["recipe"]: run for run in read("ccc-cifar10.json")}


def accuracy(run: dict[str, Any], *, last: float = 1.0) -> float:
    """Return the accuracy over the last share of a run, in percent."""
    windows = run["window_accuracy"]
    return 100 * float(np.mean(windows[-round(last * len(windows)) :]))


def test_the_walk_was_long_and_met_by_all_alike(walk: dict[str, dict[str, Any]]) -> None:
    whole = [walk[recipe] for recipe in ("source", "batch_norm", "tent", "eta", "rdumb", "rdumb-ccc")]
    assert {run["summary"]["samples"] for run in whole} == {300_000}
    shared = [run["manifest"]["protocol"] for run in whole]
    assert len({(protocol["stream"], protocol["weights"], protocol["batch_size"]) for protocol in shared}) == 1


def test_the_frozen_model_is_held_near_its_target(walk: dict[str, dict[str, Any]]) -> None:
    target = walk["source"]["manifest"]["stream"]["spec"]["plan"]["target_percent"]
    assert accuracy(walk["source"]) == pytest.approx(target, abs=3)


def test_memory_is_flat(walk: dict[str, dict[str, Any]]) -> None:
    for run in walk.values():
        peaks = run["summary"]["peak_mib"]
        assert peaks["100%"] < 1.05 * peaks["10%"]


def test_tent_ends_below_the_frozen_model(walk: dict[str, dict[str, Any]]) -> None:
    assert accuracy(walk["tent"], last=0.1) < accuracy(walk["source"], last=0.1) - 5


def test_rdumb_stays_above_the_frozen_model_to_the_end(walk: dict[str, dict[str, Any]]) -> None:
    for recipe in ("rdumb", "rdumb-ccc"):
        tenths = [np.reshape(walk[name]["window_accuracy"], (10, -1)).mean(1) for name in (recipe, "source")]
        assert (tenths[0] > tenths[1] + 0.1).all()


def test_eta_without_a_reset_ends_below_rdumb(walk: dict[str, dict[str, Any]]) -> None:
    assert accuracy(walk["eta"], last=0.1) < accuracy(walk["rdumb"], last=0.1) - 5


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


INDEPENDENT = [setting for setting in UNITTA_SETTINGS if setting.startswith("(i")]
CORRELATED = [setting for setting in UNITTA_SETTINGS if setting.startswith("(n")]


@pytest.fixture(scope="module")
def unitta() -> dict[tuple[str, str], dict[int, float]]:
    """The error of the 24 settings of UniTTA on CIFAR-10 in %, by recipe, setting and seed."""
    errors: dict[tuple[str, str], dict[int, float]] = {}
    for run in read("unitta-cifar10.json"):
        setting = run["manifest"]["stream"]["label"]
        seeds = errors.setdefault((run["recipe"], setting), {})
        seeds[run["manifest"]["seed"]] = 100 * (1 - run["summary"]["accuracy"])
    return errors


def mean_error(errors: dict[tuple[str, str], dict[int, float]], recipe: str, settings: Iterable[str]) -> float:
    return float(np.mean([list(errors[recipe, setting].values()) for setting in settings]))


def test_all_settings_of_unitta_were_met_by_all_alike(unitta: dict[tuple[str, str], dict[int, float]]) -> None:
    recipes = {recipe for recipe, _ in unitta}
    assert len(recipes) == 16
    assert set(unitta) == {(recipe, setting) for recipe in recipes for setting in UNITTA_SETTINGS}
    assert all(set(seeds) == ({0} if recipe == "cotta" else {0, 1, 2}) for (recipe, _), seeds in unitta.items())
    shared = [run["manifest"]["protocol"] for run in read("unitta-cifar10.json")]
    assert len({(protocol["weights"], protocol["batch_size"], protocol["threads"]) for protocol in shared}) == 1
    assert {run["summary"]["samples"] for run in read("unitta-cifar10.json")} == {960}


def test_unitta_is_the_best_published_method_on_average(unitta: dict[tuple[str, str], dict[int, float]]) -> None:
    average = {recipe: mean_error(unitta, recipe, UNITTA_MAIN) for recipe, _ in unitta}
    ours = average.pop("unitta_auto")
    assert min(average, key=lambda recipe: average[recipe]) == "unitta"
    assert ours < average["unitta"]


def test_methods_that_trust_the_batch_lose_where_classes_are_correlated(
    unitta: dict[tuple[str, str], dict[int, float]],
) -> None:
    for recipe in ("tent", "batch_norm", "roid"):
        assert mean_error(unitta, recipe, CORRELATED) > mean_error(unitta, "source", CORRELATED) + 5
        for setting in CORRELATED:
            assert mean_error(unitta, recipe, [setting]) > mean_error(unitta, "source", [setting])


def test_averaging_neighbours_loses_where_classes_come_independently(
    unitta: dict[tuple[str, str], dict[int, float]],
) -> None:
    assert mean_error(unitta, "cofa", INDEPENDENT) > mean_error(unitta, "source", INDEPENDENT) + 2
    for setting in INDEPENDENT:
        assert mean_error(unitta, "unitta", [setting]) > mean_error(unitta, "bdn", [setting])


def test_unitta_that_listens_is_near_the_better_of_bdn_and_unitta_everywhere(
    unitta: dict[tuple[str, str], dict[int, float]],
) -> None:
    for setting in UNITTA_SETTINGS:
        better = min(mean_error(unitta, recipe, [setting]) for recipe in ("bdn", "unitta"))
        assert mean_error(unitta, "unitta_auto", [setting]) < better + 0.5
