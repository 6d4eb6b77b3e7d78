"""Recommendations rank methods on the user's model, data and stream, and may be not to adapt."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

import holdfast
from holdfast.cli import app
from holdfast.commands.recommend import Recommendation, Scenario, recommend, scenario_of
from holdfast.registry import UnknownNameError

DIGITS = {"name": "digits", "split": "validation"}


def ranked(tmp_path: Path, scenario: Scenario, *candidates: str, **options: float | str) -> Recommendation:
    kept = {"family": "224", "severity": 3, "samples": 512, "seeds": 2, **options}
    return recommend({"name": "digits_resnet"}, DIGITS, scenario, out=tmp_path, candidates=candidates, **kept)  # type: ignore[arg-type]


@pytest.mark.slow
def test_a_helpful_method_is_recommended_with_its_interval(tmp_path: Path) -> None:
    recommendation = ranked(tmp_path, scenario_of("few domains"), "batch_norm")
    assert [choice.name for choice in recommendation.choices] == ["batch_norm", "source"]
    best = recommendation.best
    assert best is not None
    assert best.low < best.gain < best.high
    assert best.gain == pytest.approx(best.accuracy - recommendation.choices[1].accuracy)
    assert recommendation.conclusion.startswith("use batch_norm: +")


def test_batch_statistics_are_not_recommended_for_single_samples(tmp_path: Path) -> None:
    recommendation = ranked(tmp_path, scenario_of("one domain, single samples"), "batch_norm", samples=64)
    assert recommendation.best is None
    assert recommendation.conclusion.startswith("do not adapt")


@pytest.mark.slow
def test_methods_over_budget_or_unfit_are_named(tmp_path: Path) -> None:
    recommendation = ranked(tmp_path, scenario_of("few domains"), "batch_norm", max_time=0.01)
    assert recommendation.best is None
    assert not recommendation.choices[0].affordable
    vit = recommend(
        {"name": "digits_vit"}, DIGITS, scenario_of(""), out=tmp_path, candidates=["batch_norm"], samples=64, seeds=1
    )
    assert "BatchNorm" in vit.unfit["batch_norm"]


def test_candidates_that_follow_source_data_are_shown_them_or_the_card(tmp_path: Path) -> None:
    scenario = scenario_of("one domain")
    recommendation = ranked(tmp_path, scenario, "blend", samples=128, seeds=1)
    assert (
        recommendation.choices[0].accuracy != recommendation.choices[1].accuracy
    )  # it does not predict as the source does
    network = holdfast.models.digits_resnet()
    holdfast.make_card(network, [torch.rand(16, 3, 32, 32)]).save(tmp_path / "digits.card")
    ranked(tmp_path, scenario, "blend", samples=128, seeds=1, card=str(tmp_path / "digits.card"))
    texts = [
        json.loads(path.read_text())["protocol"]["source_data"] for path in tmp_path.glob("*/blend-*/manifest.json")
    ]
    assert sorted(text.split()[0] for text in texts) == ["224", "the"]
    holdfast.make_card(holdfast.models.digits_vit(), [torch.rand(16, 3, 32, 32)]).save(tmp_path / "digits.card")
    with pytest.raises(ValueError, match="other weights"):
        ranked(tmp_path, scenario, "blend", samples=96, seeds=1, card=str(tmp_path / "digits.card"))


@pytest.mark.slow
def test_a_candidate_that_has_lost_is_not_run_again(tmp_path: Path) -> None:
    recommendation = ranked(tmp_path, scenario_of("few domains"), "batch_norm", "lame", seeds=2)
    seeds = {choice.name: choice.seeds for choice in recommendation.choices}
    assert seeds == {"batch_norm": 2, "source": 2, "lame": 1}
    assert [choice.name for choice in recommendation.best_per_cost][-1] == "batch_norm"
    assert len(list(tmp_path.glob("*/lame-*"))) == 1


def test_phrases_are_checked_and_numbers_override_them() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'correlated classes'"):
        scenario_of("corelated classes")
    assert scenario_of("correlated  classes, Small batches", class_stay=0.8) == Scenario(class_stay=0.8, batch_size=8)


@pytest.mark.slow
def test_the_command_prints_a_ranking_and_a_conclusion(tmp_path: Path) -> None:
    words = ["recommend", "--samples", "64", "--seeds", "1", "--family", "224", "--out", str(tmp_path), "--json"]
    result = CliRunner().invoke(app, [*words, "--scenario", "one domain"], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    content = json.loads(result.stdout)
    assert {"source", "tent", "rdumb", "bdn", "blend", "anchor", "guard"} <= {
        choice["name"] for choice in content["choices"]
    }
    assert content["scenario"]["domains"] == 1
    assert content["conclusion"]
