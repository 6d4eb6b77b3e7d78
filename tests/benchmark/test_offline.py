"""Offline protocols: several epochs over a set, then predictions on other draws; only the oracle uses labels."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.metrics import f1_score, silhouette_score

from holdfast.benchmark import Job, Progress, SuiteError, load_suite, parse_suite, run
from holdfast.data import Digits
from holdfast.model.adapt import adapt
from holdfast.models import digits_resnet
from holdfast.randomness import seeded_rng
from holdfast.streams import continual, reset_each_shift

SUITE = """\
name: small
protocol: PROTOCOL
epochs: 2
models: [digits_resnet]
batch_size: 16
streams:
  - name: reset_each_shift
    data: {name: digits, split: test}
    corruptions: [gaussian_noise, contrast]
    samples_per_domain: 40
recipes: [source, {name: tent, lr: LR}]
"""


def jobs(protocol: str, lr: float = 0.01) -> list[Job]:
    return parse_suite(SUITE.replace("PROTOCOL", protocol).replace("LR", str(lr))).jobs()


def rows(folder: Path) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in (folder / "rows.jsonl").read_text().splitlines()]
    for row in lines:
        del row["step_seconds"]
    return lines


def summary(folder: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((folder / "summary.json").read_text())
    return content


def test_a_redrawn_stream_holds_the_same_samples_under_other_draws() -> None:
    stream = continual(Digits(), corruptions=["gaussian_noise", "clean"], samples_per_domain=20, seed=3)
    redrawn = stream.redrawn()
    ours, others = stream.render(0, 40), redrawn.render(0, 40)
    assert np.array_equal(ours.labels, others.labels)
    assert not torch.equal(ours.inputs[:20], others.inputs[:20])
    assert torch.equal(ours.inputs[20:], others.inputs[20:])  # nothing is drawn for clean samples
    assert stream.protocol == redrawn.protocol
    assert redrawn.fingerprint == stream.redrawn().fingerprint != stream.fingerprint
    assert stream.redrawn(3).fingerprint == stream.fingerprint
    assert redrawn.redrawn().fingerprint not in (stream.fingerprint, redrawn.fingerprint)


def test_a_stream_without_episodes_is_one_episode() -> None:
    options: dict[str, Any] = {"corruptions": ["contrast", "pixelate", "clean"], "samples_per_domain": 20}
    assert reset_each_shift(Digits(), **options).episodes(50) == [(0, 20), (20, 40), (40, 50)]
    assert continual(Digits(), **options).episodes(60) == [(0, 60)]


def test_fixed_epochs_equal_a_plain_training_loop(tmp_path: Path) -> None:
    folder = run(jobs("offline-fixed")[1], tmp_path)
    options: dict[str, Any] = {"corruptions": ["gaussian_noise", "contrast"], "samples_per_domain": 40}
    stream = reset_each_shift(Digits("test"), **options)
    correct, losses = [], []
    for start in (0, 40):
        model = adapt(digits_resnet(), "tent", lr=0.01)
        inputs = stream.redrawn().render(start, start + 40).inputs
        for epoch in range(2):
            order = seeded_rng(0, f"order of epoch {epoch}", start).permutation(40)
            steps = [model.step(inputs[order[first : first + 16]]) for first in range(0, 40, 16)]
            losses.append(sum(step.loss or 0.0 for step in steps) / 3)
        batches = list(stream.starting_at(start, stop=start + 40, batch_size=16))
        answers = np.concatenate([model.predict(batch.inputs).logits.argmax(1).numpy() for batch in batches])
        correct.append(int((answers == np.concatenate([batch.labels for batch in batches])).sum()))
    assert [one_set["correct"] for one_set in summary(folder)["sets"]] == correct
    assert [loss for one_set in summary(folder)["sets"] for loss in one_set["losses"]] == pytest.approx(losses)
    one_set = rows(folder)
    assert [row["size"] for row in one_set] == [16, 16, 8] * 2
    assert [row["position"] for row in one_set] == [0, 16, 32, 40, 56, 72]
    assert all(row["forwards"] == 3 and row["backwards"] == 2 for row in one_set)  # its share of two epochs, and itself
    manifest = json.loads((folder / "manifest.json").read_text())["protocol"]
    assert (manifest["protocol"], manifest["epochs"]) == ("offline-fixed", 2)
    assert manifest["order"] == "predicts after its update"


def test_the_source_needs_no_epochs(tmp_path: Path) -> None:
    folder = run(jobs("offline-oracle")[0], tmp_path)
    assert all(row["forwards"] == 1 for row in rows(folder))
    assert [one_set["chosen_epoch"] for one_set in summary(folder)["sets"]] == [0, 0]


def test_an_oracle_keeps_the_best_epoch_and_records_the_last(tmp_path: Path) -> None:
    ruinous = 3.0  # the first epoch with such a rate leaves a worse network than it found
    oracle, fixed = (run(jobs(protocol, ruinous)[1], tmp_path) for protocol in ("offline-oracle", "offline-fixed"))
    kept, last = summary(oracle), summary(fixed)
    for kept_set, fixed_set in zip(kept["sets"], last["sets"], strict=True):
        curve = kept_set["redrawn_accuracy"]
        assert len(curve) == 3
        assert curve[kept_set["chosen_epoch"]] == max(curve)
        assert kept_set["chosen_epoch"] == max(epoch for epoch, value in enumerate(curve) if value == max(curve))
        assert kept_set["last_correct"] == fixed_set["correct"]
    assert [kept_set["chosen_epoch"] for kept_set in kept["sets"]] == [0, 0]
    assert kept["correct"] > last["correct"]


def test_of_equal_epochs_the_oracle_keeps_the_last(tmp_path: Path) -> None:
    """The official loop saves the weights whenever the accuracy is at least the best so far."""
    for one_set in summary(run(jobs("offline-oracle", lr=0.0)[1], tmp_path))["sets"]:
        assert len(set(one_set["redrawn_accuracy"])) == 1
        assert one_set["chosen_epoch"] == 2


def test_an_oracle_chooses_by_the_score_of_the_data_set(tmp_path: Path) -> None:
    job = replace(jobs("offline-oracle")[1], oracle_score="macro_f1")
    assert Job.from_json(job.to_json()) == job
    assert job.name != replace(job, oracle_score="accuracy").name
    folder = run(job, tmp_path)
    assert json.loads((folder / "manifest.json").read_text())["protocol"]["oracle_score"] == "macro_f1"
    for one_set in summary(folder)["sets"]:
        curve = one_set["redrawn_score"]
        assert len(curve) == len(one_set["redrawn_accuracy"]) == 3
        assert curve != one_set["redrawn_accuracy"]
        assert one_set["chosen_epoch"] == max(epoch for epoch, value in enumerate(curve) if value == max(curve))


class KillError(Exception):
    """Stands for a kill: nothing after the last checkpoint is kept."""


@pytest.mark.parametrize("protocol", [pytest.param("offline-fixed", marks=pytest.mark.slow), "offline-oracle"])
def test_a_repeatedly_killed_run_has_the_rows_of_an_uninterrupted_one(tmp_path: Path, protocol: str) -> None:
    job = jobs(protocol)[1]
    expected = run(job, tmp_path / "whole")
    kills = 0
    while not (tmp_path / "killed" / job.suite / job.name / "summary.json").exists():
        seen: list[Progress] = []

        def kill(progress: Progress, seen: list[Progress] = seen) -> None:
            seen.append(progress)
            if len(seen) == 4:
                raise KillError

        try:
            run(job, tmp_path / "killed", checkpoint_seconds=0.0, progress=kill)
        except KillError:
            kills += 1
    assert kills >= 3
    folder = tmp_path / "killed" / job.suite / job.name
    assert rows(folder) == rows(expected)
    assert summary(folder)["sets"] == summary(expected)["sets"]
    assert not {"redrawn.npy", "best.safetensors"} & {path.name for path in folder.iterdir()}


def test_an_endless_stream_is_refused(tmp_path: Path) -> None:
    text = SUITE.replace("PROTOCOL", "offline-fixed").replace("LR", "0.1") + "\n"
    endless = text.replace("samples_per_domain: 40", "samples_per_domain: 40\n    cycles: null")
    with pytest.raises(ValueError, match="need a stream of known length"):
        run(parse_suite(endless).jobs()[1], tmp_path)


def test_a_suite_may_have_several_protocols_and_restrict_models() -> None:
    text = SUITE.replace("PROTOCOL", "[online, offline-fixed]").replace("LR", "0.1")
    both = parse_suite(text).jobs()
    assert [job.protocol for job in both] == ["online"] * 2 + ["offline-fixed"] * 2
    assert len({job.name for job in both}) == 4
    assert "offline-fixed" in both[2].name
    only = text.replace("[digits_resnet]", "[{name: digits_resnet, recipes: [t*], batch_size: 8}, digits_vit]")
    parsed = [(job.model.name, job.recipe.name, job.batch_size) for job in parse_suite(only).jobs()[:3]]
    assert parsed == [("digits_resnet", "tent", 8), ("digits_vit", "source", 16), ("digits_vit", "tent", 16)]
    with pytest.raises(SuiteError, match="line 4: no label of recipes matches 'tnet'; did you mean 'tent'"):
        parse_suite(only.replace("t*", "tnet"))
    with pytest.raises(SuiteError, match="protocol"):
        parse_suite(SUITE.replace("PROTOCOL", "offline").replace("LR", "0.1"))


def test_presets_may_depend_on_the_stream_and_bring_their_epochs() -> None:
    text = SUITE.replace("PROTOCOL", "[offline-oracle, online]").replace("LR", "0.1")
    text = text.replace("  - name: reset", "  - label: sc2-TST-L2\n    name: reset")
    text = text.replace("{name: tent, lr: 0.1}", '{name: dhauds, preset: "amaut-{stream}"}')
    parsed = [(job.recipe.options.get("preset"), job.epochs) for job in parse_suite(text).jobs()]
    assert parsed == [(None, 2), ("amaut-sc2-TST-L2", 15), (None, 1), ("amaut-sc2-TST-L2", 1)]
    with pytest.raises(SuiteError, match="has no preset 'amaut-sc2-TST-L3'; did you mean 'amaut-sc2-TST-L"):
        parse_suite(text.replace("label: sc2-TST-L2", "label: sc2-TST-L3"))


def test_names_of_online_jobs_stay_as_recorded() -> None:
    assert load_suite("demo").jobs()[0].name == "source-continual-digits_resnet-seed0-832ea416"


def test_further_scores_are_those_of_the_predictions(tmp_path: Path) -> None:
    text = (
        SUITE.replace("PROTOCOL", "[offline-fixed, online]").replace("LR", "0.01") + "scores: [macro_f1, silhouette]\n"
    )
    source, _, unscored, _ = parse_suite(text).jobs()
    assert unscored.scores == ()
    first, second = summary(run(source, tmp_path))["sets"]
    stream = reset_each_shift(Digits("test"), corruptions=["gaussian_noise", "contrast"], samples_per_domain=40)
    batch = stream.render(0, 40)
    network = digits_resnet()
    with torch.no_grad():
        answers = network(batch.inputs).argmax(1).numpy()
        maps = torch.relu(network.norm(network.conv(network.normalise(batch.inputs))))
        features = network.stages(maps).mean(dim=(2, 3)).numpy()
    assert first["scores"]["macro_f1"] == pytest.approx(f1_score(batch.labels, answers, average="macro"))
    assert first["scores"]["silhouette"] == pytest.approx(silhouette_score(features, batch.labels), abs=1e-4)
    assert set(second["scores"]) == {"macro_f1", "silhouette"}
