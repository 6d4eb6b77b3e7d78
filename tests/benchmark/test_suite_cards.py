"""Suites: recipes that follow inputs from source data are shown those of the suite, or the card of the model."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import holdfast
from holdfast.anchor import is_referred
from holdfast.benchmark import bench, load_suite, run, suite_names
from holdfast.benchmark.building import build
from holdfast.benchmark.preparation import missing
from holdfast.benchmark.suite import parse_suite
from holdfast.estimators.anchored import Anchored
from holdfast.models import MODELS
from holdfast.report.suite_text import suite_text

SUITE = """\
name: small
models: [digits_resnet]
batch_size: 16
samples: 32
source: {name: digits, split: validation, samples: 64}
streams:
  - name: continual
    data: {name: digits, split: test}
    corruptions: [contrast]
    samples_per_domain: 32
recipes: [source, blend, {name: guard, base: eata}, {name: tent, recovery: regret}]
"""
FROM_STREAM = SUITE.replace("source: {name: digits, split: validation, samples: 64}", "source: {name: stream}")


@pytest.fixture
def card(tmp_path: Path) -> Path:
    made = holdfast.make_card(MODELS["digits_resnet"](), [torch.rand(32, 3, 32, 32)])
    made.save(tmp_path / "digits.card")
    return tmp_path / "digits.card"


def with_card(path: Path) -> str:
    return SUITE.replace("[digits_resnet]", f"[{{name: digits_resnet, card: {path}}}]")


def protocol(folder: Path) -> dict[str, Any]:
    return dict(json.loads((folder / "manifest.json").read_text())["protocol"])


def test_source_data_reach_what_follows_them_and_the_manifest(monkeypatch: pytest.MonkeyPatch) -> None:
    samples: list[int] = []
    monkeypatch.setattr(Anchored, "refer_to", lambda _, reference: samples.append(reference.samples))
    source, blend, guard, regret = (build(job) for job in parse_suite(SUITE).jobs())
    assert source.seen["source_data"] == "none"
    for built in (blend, guard, regret):
        assert built.seen["source_data"].startswith("64 inputs of digits/validation (")
    assert is_referred(blend.model.method.model)
    assert guard.model.method.referred
    assert samples == [64]  # the estimator that the recovery reads


def test_the_beginning_of_the_stream_is_no_source_data_to_follow() -> None:
    _, blend, guard, regret = (build(job) for job in parse_suite(FROM_STREAM).jobs())
    assert [built.seen["source_data"] for built in (blend, regret)] == ["none", "none"]
    assert guard.seen["source_data"] == "the first 512 inputs of the stream"  # for EATA
    assert not any(built.model.method.referred for built in (blend, guard))


def test_held_out_data_are_followed_where_the_source_is_the_stream() -> None:
    text = FROM_STREAM + "holdout: {name: digits, split: validation, samples: 40}\n"
    assert build(parse_suite(text).jobs()[2]).model.method.referred


def test_a_card_is_followed_instead_and_the_manifest_has_its_digest(tmp_path: Path, card: Path) -> None:
    jobs = parse_suite(with_card(card)).jobs()
    digest = holdfast.read_card(card).digest[:8]
    assert build(jobs[0]).seen["source_data"] == "none"
    assert build(jobs[1]).model.method.referred
    assert build(jobs[2]).seen["source_data"].endswith(f"), the card {digest} of 32 inputs")
    (shown,) = bench(jobs[1:2], tmp_path)
    assert shown.error is None
    assert shown.folder is not None
    by_source = run(parse_suite(SUITE).jobs()[1], tmp_path)
    first, second = protocol(shown.folder), protocol(by_source)
    assert first.pop("source_data") == f"the card {digest} of 32 inputs"
    assert second.pop("source_data") != first
    assert first == second
    fingerprints = [
        json.loads((folder / "manifest.json").read_text())["fingerprint"] for folder in (shown.folder, by_source)
    ]
    assert fingerprints[0] != fingerprints[1]


def test_a_card_is_a_part_of_the_job_and_of_the_suite_that_a_report_writes(card: Path) -> None:
    jobs = parse_suite(with_card(card)).jobs()
    assert {job.card for job in jobs} == {str(card)}
    assert not {job.name for job in jobs} & {job.name for job in parse_suite(SUITE).jobs()}
    again = parse_suite(suite_text(json.loads(json.dumps(job.to_json())) for job in jobs)).jobs()
    assert [job.name for job in again] == [job.name for job in jobs]
    assert type(jobs[0]).from_json(jobs[0].to_json()).card == str(card)


def test_a_card_of_other_weights_is_refused_before_anything_runs(tmp_path: Path, card: Path) -> None:
    jobs = parse_suite(with_card(card).replace("digits_resnet", "digits_resnet_gn")).jobs()
    with pytest.raises(
        ValueError, match=r"digits_resnet_gn: the card belongs to a network with other weights.*nothing"
    ):
        bench(jobs, tmp_path / "runs")
    assert not (tmp_path / "runs").exists()
    gone = replace(jobs[0], card=str(tmp_path / "gone.card"))
    assert [need.kind for need in missing([gone])] == ["card"]


def test_shipped_suites_show_source_data_to_what_follows_them() -> None:
    for name in suite_names():
        for job in load_suite(name).jobs()[:1]:
            recipes = {job.resolved.kind.uses_reference for job in load_suite(name).jobs()}
            if True in recipes:
                assert job.source is not None, name
                assert job.source.spec.name != "stream", name
