"""Runs: one folder each; an interrupted run resumes and has the rows of an uninterrupted one."""

from __future__ import annotations

import json
import multiprocessing
import signal
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from holdfast.benchmark import Progress, Suite, bench, run
from holdfast.benchmark.job import SourceData
from holdfast.benchmark.suite import parse_suite
from holdfast.models import MODELS
from holdfast.options.spec import Spec

SUITE = """\
name: small
models: [digits_resnet]
batch_size: 16
source: {name: digits, split: train, samples: 64}
streams:
  - name: STREAM
    data: {name: digits, split: test}
    corruptions: [gaussian_noise, contrast, clean]
    samples_per_domain: 56
recipes: [source, tent, eata, {name: rdumb, every_batches: 3}]
estimators: [softmax_score]
"""


# Children of a server that has imported the library start at once, and each is still a process of its own. The first
# optimiser of a process imports torch._dynamo, which takes as long again.
PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(["holdfast.benchmark", "torch._dynamo"])


def suite(stream: str = "continual", samples_per_domain: int = 56) -> Suite:
    text = SUITE.replace("samples_per_domain: 56", f"samples_per_domain: {samples_per_domain}")
    return parse_suite(text.replace("STREAM", stream))


def rows(folder: Path) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in (folder / "rows.jsonl").read_text().splitlines()]
    for row in lines:
        del row["step_seconds"]  # the one thing in a row that the clock decides
    return lines


def test_a_run_folder_holds_manifest_rows_state_and_summary(tmp_path: Path) -> None:
    job = suite().jobs()[3]
    folder = run(job, tmp_path)
    assert {path.name for path in folder.iterdir()} >= {
        "manifest.json",
        "rows.jsonl",
        "state.safetensors",
        "summary.json",
    }
    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest["protocol"]["recovery"] == "periodic(every_batches=3)"
    assert manifest["protocol"]["order"] == "predicts before its update"
    assert manifest["recipe"]["preset"] == "cifar10-c"
    written = rows(folder)
    assert [row["size"] for row in written] == [16, 16, 16, 8] * 3  # no batch goes across a change of domain
    assert [row["position"] for row in written] == [sum(r["size"] for r in written[:i]) for i in range(len(written))]
    assert [index for index, row in enumerate(written) if row["recovered"]] == [3, 6, 9]
    assert all(0 <= row["estimates"]["softmax_score"]["value"] <= 1 for row in written)
    assert all(row["forwards"] == 1 for row in written)
    total = sum(correct for row in written for correct, _ in row["domains"].values())
    summary = json.loads((folder / "summary.json").read_text())
    assert summary["correct"] == total
    assert list(summary["peak_mib"]) == ["10%", "50%", "100%"]


def test_held_out_data_reach_the_estimators_and_the_manifest(tmp_path: Path) -> None:
    text = SUITE.replace("STREAM", "continual").replace("[softmax_score]", "[source_validation]") + "samples: 32\n"
    jobs = parse_suite(text + "holdout: {name: digits, split: validation, samples: 40}\n").jobs()
    folder = run(jobs[1], tmp_path)
    described = json.loads((folder / "manifest.json").read_text())["protocol"]["holdout_data"]
    assert described.startswith("40 inputs of digits/validation with labels (")
    shares = [row["estimates"]["source_validation"]["value"] for row in rows(folder)]
    assert all(share > 0.9 and round(40 * share, 9).is_integer() for share in shares)


def test_estimators_have_labels_and_the_seed_of_the_run_and_gains_are_recorded(tmp_path: Path) -> None:
    watching = "[{name: aetta, label: mild, masks: 2}, {name: anchored, compare_every: 2}]\nseeds: [7]\nsamples: 56"
    text = SUITE.replace("STREAM", "continual").replace("[softmax_score]", watching)
    folder = run(parse_suite(text).jobs()[1], tmp_path)
    recorded = json.loads((folder / "manifest.json").read_text())["recipe"]["estimators"]
    assert (recorded["mild"]["name"], recorded["mild"]["seed"], "seed" in recorded["anchored"]) == ("aetta", 7, False)
    written = rows(folder)
    assert all(set(row["estimates"]) == {"mild", "anchored"} for row in written)
    compared = [row["estimates"]["anchored"]["gain"] is not None for row in written]
    assert compared == [False, True, False, True]
    assert all(row["estimates"]["mild"]["gain"] is None for row in written)


def test_held_out_data_that_are_those_of_the_stream_are_refused(tmp_path: Path) -> None:
    text = SUITE.replace("STREAM", "continual") + "holdout: {name: digits, split: validation}\n"
    job = parse_suite(text).jobs()[0]
    with pytest.raises(ValueError, match="held-out data are those of the stream"):
        run(replace(job, holdout=SourceData(spec=Spec("digits", options={"split": "test"}), samples=8)), tmp_path)


def test_samples_cut_a_stream_to_the_exact_length(tmp_path: Path) -> None:
    job = parse_suite(SUITE.replace("STREAM", "continual") + "samples: 70\n").jobs()[0]
    assert [row["size"] for row in rows(run(job, tmp_path))] == [16, 16, 16, 8, 14]


def test_a_finished_run_is_not_repeated(tmp_path: Path) -> None:
    job = suite().jobs()[0]
    folder = run(job, tmp_path)
    before = (folder / "rows.jsonl").stat().st_mtime_ns
    seen: list[Progress] = []
    run(job, tmp_path, progress=seen.append)
    assert (folder / "rows.jsonl").stat().st_mtime_ns == before
    assert [progress.finished for progress in seen] == [True]


def test_reset_each_shift_starts_every_domain_from_the_source(tmp_path: Path) -> None:
    tent = next(job for job in suite("reset_each_shift").jobs() if job.recipe.name == "tent")
    fresh = next(job for job in suite("continual").jobs() if job.recipe.name == "tent")
    reset, continual = rows(run(tent, tmp_path)), rows(run(fresh, tmp_path / "continual"))
    assert reset[:4] == continual[:4]
    assert reset[4] != continual[4]


@pytest.mark.slow
def test_serial_and_processes_write_the_same_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(multiprocessing, "get_context", lambda _: PROCESSES)
    jobs = suite(samples_per_domain=20).jobs()[2:]
    there = bench(jobs, tmp_path / "processes", executor="processes", workers=2)
    here = bench(jobs, tmp_path / "serial")
    assert all(outcome.error is None for outcome in (*there, *here))
    apart = {outcome.job.name: outcome.folder for outcome in there}
    for outcome in here:
        assert outcome.folder is not None
        folder = apart[outcome.job.name]
        assert folder is not None
        assert rows(outcome.folder) == rows(folder)


def test_a_run_does_not_resume_under_another_protocol(tmp_path: Path) -> None:
    job = suite().jobs()[0]
    folder = run(job, tmp_path)
    (folder / "summary.json").unlink()
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["protocol"]["versions"]["torch"] = "1.0"
    (folder / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(ValueError, match="begun under another protocol: versions"):
        run(job, tmp_path)


def test_one_failing_job_does_not_stop_the_others(tmp_path: Path) -> None:
    @MODELS.register("test_linear")
    def linear() -> nn.Module:
        """A network without any normalisation."""
        return nn.Sequential(nn.Flatten(), nn.Linear(3072, 10))

    text = SUITE.replace("STREAM", "continual").replace("[digits_resnet]", "[test_linear]")
    try:
        outcomes = bench(parse_suite(text).jobs(), tmp_path)
    finally:
        MODELS.discard("test_linear")
    assert [outcome.error is None for outcome in outcomes] == [True, False, False, False]
    assert "no normalisation layer" in str(outcomes[1].error)


# eata keeps what the source taught it, rdumb its clock
@pytest.mark.slow
@pytest.mark.parametrize(
    ("recipe", "samples", "goals"),
    [pytest.param(2, None, (3, 12, 23, 40), marks=pytest.mark.slow), (3, 160, (5,))],
)
def test_a_repeatedly_killed_run_has_the_rows_of_an_uninterrupted_one(
    tmp_path: Path, recipe: int, samples: int | None, goals: tuple[int, ...]
) -> None:
    job = replace(suite("gradual", samples_per_domain=20).jobs()[recipe], samples=samples)
    expected = rows(run(job, tmp_path / "whole"))
    folder = tmp_path / "killed" / job.suite / job.name

    def start() -> multiprocessing.process.BaseProcess:
        options = {"checkpoint_seconds": 0.0}
        process = PROCESSES.Process(target=run, args=(job, tmp_path / "killed"), kwargs=options)
        process.start()
        return process

    kills = 0
    for goal in goals:
        process = start()
        while process.is_alive() and lines(folder) < goal:
            time.sleep(0.005)
        process.kill()
        process.join()
        kills += process.exitcode == -signal.SIGKILL
    assert kills >= max(1, len(goals) - 1)
    process = start()
    process.join()
    assert process.exitcode == 0
    assert (folder / "summary.json").exists()
    assert rows(folder) == expected


def lines(folder: Path) -> int:
    try:
        return (folder / "rows.jsonl").read_bytes().count(b"\n")
    except FileNotFoundError:
        return 0


def test_a_torn_row_is_written_again(tmp_path: Path) -> None:
    job = suite().jobs()[1]
    expected = rows(run(job, tmp_path / "whole"))
    folder = run(job, tmp_path / "torn")
    (folder / "summary.json").unlink()
    (folder / "state.safetensors").unlink()
    with (folder / "rows.jsonl").open("ab") as file:
        file.write(b'{"position": 16')
    assert rows(run(job, tmp_path / "torn")) == expected


def test_two_processes_cannot_run_one_folder(tmp_path: Path) -> None:
    job = suite().jobs()[0]
    folder = tmp_path / job.suite / job.name

    def again(progress: Progress) -> None:
        if not progress.finished:
            with pytest.raises(RuntimeError, match="another process"):
                run(job, tmp_path)

    run(job, tmp_path, progress=again)
    assert (folder / "summary.json").exists()


def test_the_number_of_threads_is_restored(tmp_path: Path) -> None:
    torch.set_num_threads(2)
    try:
        folder = run(suite().jobs()[0], tmp_path)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(1)
    assert json.loads((folder / "manifest.json").read_text())["protocol"]["threads"] == 1
