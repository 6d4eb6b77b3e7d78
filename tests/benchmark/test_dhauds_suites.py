"""The suites of DHAuDS: fifty criteria, 124 published runs, three protocols, and by default one setting for all."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from holdfast.benchmark import bench, load_suite
from holdfast.corruptions.audio.dhauds import CLIPS, criteria
from holdfast.data import Keywords
from holdfast.recipes import recipe_names
from holdfast.report import make_report, write_report


def test_the_paper_scale_has_fifty_criteria_and_124_published_runs() -> None:
    suite = load_suite("dhauds", scale="paper")
    assert [stream.spec.label for stream in suite.streams] == [
        f"{data}-{name}" for data in CLIPS for name in criteria(data)
    ]
    for stream in suite.streams:
        data, _, name = stream.spec.label.partition("-")
        assert (stream.data.name, stream.spec.options["criteria"]) == (f"{data}_c", [name])
        assert stream.spec.options["compat"] is True
    every = [*suite.jobs(), *load_suite("dhauds", scale="paper-hubert-us8").jobs()]  # at 16 kHz
    jobs = [job for job in every if job.protocol == "offline-oracle"]
    published = [job for job in jobs if "published" in job.recipe.label or job.recipe.label == "conmix"]
    assert len(published) == 124
    assert Counter(job.model.name for job in published) == {"amaut": 50, "hubert": 50, "conmix": 24}
    assert not [job for job in jobs if job.model.name == "conmix" and "PSH" in job.stream.label]
    by_name = {(job.recipe.label, job.stream.label): job for job in jobs}
    words = by_name["dhauds as published for AMAuT", "sc2-WHN-L1"]
    assert (words.epochs, words.batch_size, words.recipe.options["preset"]) == (20, 70, "amaut-sc2-WHN-L1")
    urban = by_name["dhauds as published for HuBERT", "us8-PSH-L2"]
    assert (urban.epochs, urban.batch_size, urban.model.options["version"]) == (10, 33, "us8")
    assert by_name["conmix", "rs-TST-L1"].epochs == 16
    assert by_name["conmix without pseudo-labels", "rs-TST-L1"].recipe.options["pseudo_label_weight"] == 0
    assert by_name["dhauds", "sc2-WHN-L1"].epochs == 15
    assert {job.protocol for job in suite.jobs()} == {"online", "offline-fixed", "offline-oracle"}


def test_the_embedded_scale_has_all_criteria_under_all_protocols_and_one_setting() -> None:
    suite = load_suite("dhauds", scale="small")
    assert [stream.spec.label for stream in suite.streams] == criteria("sc2")
    assert len(suite.jobs()) == 14 * 3 * len(suite.recipes)
    settings = {json.dumps(job.recipe.to_json(), sort_keys=True) for job in suite.jobs() if job.recipe.name == "dhauds"}
    assert len(settings) == 1


def test_online_has_every_method_on_criteria_chains_and_walks() -> None:
    suite = load_suite("dhauds-online", scale="small")
    assert {recipe.name for recipe in suite.recipes} == set(recipe_names())
    assert {stream.spec.name for stream in suite.streams} == {"dhauds", "unitta", "gradual", "ccc"}
    assert {job.protocol for job in suite.jobs()} == {"online"}
    paper = load_suite("dhauds-online", scale="paper")
    assert all("lr" not in recipe.options for recipe in paper.recipes)


@pytest.mark.slow
def test_smoke(tmp_path: Path) -> None:
    pytest.importorskip("espeakng_loader")
    Keywords("test")  # spoken once, before any run
    for name in ("dhauds", "dhauds-online"):
        outcomes = bench(load_suite(name, scale="smoke").jobs(), tmp_path)
        assert [outcome.error for outcome in outcomes if outcome.error] == []
    page = write_report(make_report(tmp_path), tmp_path / "page.html").read_text()
    assert "Before → after" in page
    assert "offline-oracle" in page
