"""What docs/results/unitta.md claims of CIFAR-10."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from holdfast.report.as_published import published_rows
from holdfast.streams.catalogue.unitta import UNITTA_MAIN, UNITTA_SETTINGS

INDEPENDENT = [setting for setting in UNITTA_SETTINGS if setting.startswith("(i")]
CORRELATED = [setting for setting in UNITTA_SETTINGS if setting.startswith("(n")]


@pytest.fixture(scope="module")
def unitta(committed: Callable[[str], list[dict[str, Any]]]) -> dict[tuple[str, str], dict[int, float]]:
    """The error of the 24 settings of UniTTA on CIFAR-10 in %, by recipe, setting and seed."""
    errors: dict[tuple[str, str], dict[int, float]] = {}
    for run in committed("unitta-cifar10.json"):
        setting = run["manifest"]["stream"]["label"]
        seeds = errors.setdefault((run["recipe"], setting), {})
        seeds[run["manifest"]["seed"]] = 100 * (1 - run["summary"]["accuracy"])
    return errors


def mean_error(errors: dict[tuple[str, str], dict[int, float]], recipe: str, settings: Iterable[str]) -> float:
    return float(np.mean([list(errors[recipe, setting].values()) for setting in settings]))


def test_all_settings_of_unitta_were_met_by_all_alike(
    unitta: dict[tuple[str, str], dict[int, float]], committed: Callable[[str], list[dict[str, Any]]]
) -> None:
    recipes = {recipe for recipe, _ in unitta}
    assert len(recipes) == 16
    assert set(unitta) == {(recipe, setting) for recipe in recipes for setting in UNITTA_SETTINGS}
    assert all(set(seeds) == ({0} if recipe == "cotta" else {0, 1, 2}) for (recipe, _), seeds in unitta.items())
    shared = [run["manifest"]["protocol"] for run in committed("unitta-cifar10.json")]
    assert len({(protocol["weights"], protocol["batch_size"], protocol["threads"]) for protocol in shared}) == 1
    assert {run["summary"]["samples"] for run in committed("unitta-cifar10.json")} == {960}


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


def test_longer_streams_leave_the_order_and_unmix_needs_a_centred_start(
    committed: Callable[[str], list[dict[str, Any]]],
) -> None:
    by_recipe: dict[str, dict[str, float]] = {}
    for run in committed("unitta-cifar10-long.json"):
        assert run["summary"]["samples"] == 6016
        errors = by_recipe.setdefault(run["recipe"], {})
        errors[run["manifest"]["stream"]["label"]] = 100 - 100 * run["summary"]["accuracy"]
    assert len(by_recipe) == 13
    assert all(set(errors) == set(UNITTA_MAIN) for errors in by_recipe.values())
    source, mean = by_recipe["source"], {recipe: np.mean(list(errors.values())) for recipe, errors in by_recipe.items()}
    published = set(by_recipe) - {"unitta_auto", "blend", "unmix_tns centred"}
    assert sorted(published, key=lambda recipe: mean[recipe])[0] == "unitta"
    assert mean["unitta"] < mean["source"] - 10
    assert all(by_recipe["unmix_tns"][setting] > source[setting] for setting in UNITTA_MAIN)
    assert all(by_recipe["unmix_tns centred"][setting] < source[setting] for setting in UNITTA_MAIN)
    for recipe in ("batch_norm", "tent", "roid"):
        wrong = {setting for setting in UNITTA_MAIN if by_recipe[recipe][setting] > source[setting]}
        assert wrong == {setting for setting in UNITTA_MAIN if setting.startswith("(n")}


CLAIMS = Path(__file__).resolve().parents[2] / "docs" / "claims.md"
PUBLISHED = {
    (row["recipe"], row["column"]): 100 - float(row["value"])
    for row in published_rows()
    if row["suite"] == "unitta" and row["parameters"] == "36479194"  # those of a WRN-28-10
}


@pytest.mark.skipif(not CLAIMS.exists(), reason="the documents are not beside the tests")
def test_the_page_of_claims_compares_with_the_published_errors(
    committed: Callable[[str], list[dict[str, Any]]],
) -> None:
    recipes = {"BN": "batch_norm", "LAME": "lame", "RoTTA": "rotta"}
    lines = [line.strip("| ").split(" | ") for line in CLAIMS.read_text().splitlines() if line.startswith("| UniTTA |")]
    ranks = [cells for cells in lines if "rank as published" in cells[1]]
    sides = [cells for cells in lines if "than the source where" in cells[1]]
    assert ranks
    assert sides
    for _, claim, outcome, measured, result, _ in [*ranks, *sides]:
        error = mean_errors(committed(result.strip("`").removeprefix("results/")))
        settings = {setting for _, setting in error}
        if claim.startswith("the methods rank"):
            methods = sorted(
                {recipe for recipe, _ in error if "filter" not in recipe} & {recipe for recipe, _ in PUBLISHED}
            )
            means = [
                [np.mean([table[recipe, setting] for setting in settings]) for recipe in methods]
                for table in (error, PUBLISHED)
            ]
            places = [np.argsort(np.argsort(values)) for values in means]
            rank = np.corrcoef(*places)[0, 1]
            assert measured == f"rank correlation {rank:.2f}"
            assert outcome.startswith("holds") == (rank > 0.8)
        else:
            recipe = recipes[claim.split(" ")[0]]
            better = {setting for setting in settings if error[recipe, setting] < error["source", setting]}
            said = {setting for setting in settings if PUBLISHED[recipe, setting] < PUBLISHED["source", setting]}
            assert measured.startswith(f"in {len(settings) - len(better ^ said)} of {len(settings)} settings")
            assert outcome.startswith("holds") == (better == said)


def mean_errors(runs: list[dict[str, Any]]) -> dict[tuple[str, str], float]:
    """Return the error in % by recipe and setting, as a mean over seeds."""
    errors: dict[tuple[str, str], list[float]] = {}
    for run in runs:
        key = run["recipe"], run["manifest"]["stream"]["label"]
        errors.setdefault(key, []).append(100 - 100 * run["summary"]["accuracy"])
    return {key: float(np.mean(values)) for key, values in errors.items()}
