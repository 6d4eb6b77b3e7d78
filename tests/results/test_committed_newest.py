"""What docs/newest.md claims of the newest methods, and its tables."""

from __future__ import annotations

import runpy
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "docs" / "measured_tables.py"
pytestmark = pytest.mark.skipif(not SCRIPT.exists(), reason="the documents are not beside the tests")
AGAINST_COLLAPSE = ("come_tent x10", "zerosiam x10", "poem x10")


@pytest.fixture(scope="module")
def made() -> dict[str, Any]:
    return runpy.run_path(str(SCRIPT))


def percent(runs: list[dict[str, Any]], *, last: float = 1.0) -> float:
    """Return the mean accuracy over the last share of the batches, in percent."""
    return 100 * fmean(fmean(run["batch_accuracy"][-round(last * len(run["batch_accuracy"])) :]) for run in runs)


def test_errors_rise_with_the_visits_only_at_ten_times_the_rate(made: dict[str, Any]) -> None:
    visits = made["visits"]()
    assert all(len(errors) == 20 for errors in visits.values())
    rises = {recipe: made["rise"](errors, visits["source"]) for recipe, errors in visits.items()}
    assert rises.pop("tent x10") > 2
    assert visits["tent x10"][-1] > visits["source"][-1] + 10
    assert max(rises.values()) < 0.15


def test_the_order_of_errors_over_twenty_visits(made: dict[str, Any]) -> None:
    means = {recipe: fmean(errors) for recipe, errors in made["visits"]().items()}
    training = {"tent", "cmf", "rdumb every 50 batches", "asr_eta", "reservoir"}
    assert max(means[recipe] for recipe in training) < means["blend"] < means["source"] - 10
    assert max(means[recipe] for recipe in training) - min(means[recipe] for recipe in training) < 2
    assert all(abs(means[recipe] - means["source"]) < 1.5 for recipe in ("rotta", "petta"))


def test_where_eta_does_not_collapse_resets_cost_rdumb_a_point_and_asr_nothing(made: dict[str, Any]) -> None:
    by_recipe = made["by_recipe"]("asr-digits", "ccc")
    accuracy = {recipe: percent(runs) for recipe, runs in by_recipe.items()}
    assert percent(by_recipe["eta"], last=0.25) > accuracy["batch_norm"] > accuracy["source"] + 40
    assert accuracy["rdumb every 50 batches"] < accuracy["eta"] - 0.5
    assert abs(accuracy["asr_eta"] - accuracy["eta"]) < 0.5
    assert by_recipe["asr_eta"][0]["resets"] > by_recipe["rdumb every 50 batches"][0]["resets"]
    assert all(abs(accuracy[recipe] - accuracy["roid"]) < 1 for recipe in ("asr_roid", "asr_roid as released"))


def test_with_correlated_classes_asr_limits_the_collapse_if_it_resets_the_weights(made: dict[str, Any]) -> None:
    by_recipe = made["by_recipe"]("asr-digits", "cross")
    accuracy = {recipe: percent(runs) for recipe, runs in by_recipe.items()}
    assert accuracy["eta"] < accuracy["source"] - 5
    rdumb, plain = accuracy["rdumb every 50 batches"], accuracy["batch_norm"]
    assert all(rdumb + 3 < accuracy[recipe] < plain for recipe in ("asr_eta", "asr_eta as published"))
    assert accuracy["asr_roid as released"] < accuracy["source"] - 15
    assert by_recipe["asr_roid as released"][0]["resets"] == 278
    assert max(accuracy, key=accuracy.__getitem__) == "asr_roid"
    assert accuracy["asr_roid"] > accuracy["roid"] + 1.5


def test_tent_at_ten_times_its_rate_collapses_on_either_order_without_batch_statistics(made: dict[str, Any]) -> None:
    for order in ("sorted", "shuffled"):
        by_recipe = made["by_recipe"]("collapse-digits", order)
        assert percent(by_recipe["tent x10"], last=0.25) < 12
        assert percent(by_recipe["tent"]) > percent(by_recipe["source"])


def test_come_keeps_most_on_sorted_classes_and_none_replaces_a_recovery(made: dict[str, Any]) -> None:
    by_recipe = made["by_recipe"]("collapse-digits", "sorted")
    assert all(len(runs) == 3 for runs in by_recipe.values())
    assert max(AGAINST_COLLAPSE, key=lambda recipe: percent(by_recipe[recipe])) == "come_tent x10"
    assert percent(by_recipe["come_tent x10"]) > percent(by_recipe["tent x10"]) + 20
    for recipe in AGAINST_COLLAPSE:
        assert percent(by_recipe[recipe], last=0.25) < percent(by_recipe["source"], last=0.25) - 15


def test_with_batch_statistics_sorted_classes_cost_all_methods_the_same(made: dict[str, Any]) -> None:
    by_recipe = made["by_recipe"]("collapse-cifar10", "sorted")
    assert percent(by_recipe["source"]) - percent(by_recipe["batch_norm"]) > 15
    for recipe in ("tent", "tent x10", *AGAINST_COLLAPSE):
        assert abs(percent(by_recipe[recipe]) - percent(by_recipe["batch_norm"])) < 5


def test_risk_monitoring_finds_the_collapse_later_than_the_first_batch_and_raises_no_false_alarm(
    made: dict[str, Any],
) -> None:
    runs = {run["stream"]: run for run in made["runs"]("alarms-digits") if run["recipe"] == "tent"}
    alarms = {stream: run.get("alarm_batches", {}).get("risk", []) for stream, run in runs.items()}
    assert alarms["clean"] == alarms["continual"] == []
    assert 21 < alarms["collapse"][0] < 30


def test_batch_statistics_decide_in_the_settings_of_unitta(made: dict[str, Any]) -> None:
    table = made["errors_by_setting"]("newest-unitta-cifar10")
    source, plain, blend = (table.pop(name) for name in ("source", "batch_norm", "blend"))
    assert len(source) == 12
    assert all(blend[setting] < source[setting] for setting in source)
    for kind in ("(i,1)", "(n,1)", "(n,u)"):
        settings = [setting for setting in source if setting.startswith(kind)]
        assert all(
            fmean(blend[setting] for setting in settings) < fmean(errors[setting] for setting in settings)
            for errors in table.values()
        )
    petta, delta = table.pop("petta"), table.pop("delta")
    assert abs(fmean(petta.values()) - fmean(source.values())) < 0.5
    assert sum(delta[setting] > source[setting] for setting in source) == 11
    correlated = [setting for setting in source if setting.startswith("(n")]
    for errors in table.values():
        assert all(errors[setting] > source[setting] for setting in correlated)
        assert fmean(errors[setting] - plain[setting] for setting in correlated) > -3
        assert abs(fmean(errors[setting] - plain[setting] for setting in source if setting not in correlated)) < 0.5
