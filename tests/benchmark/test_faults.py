"""Faults of a run: each is the outcome of its job, named and recoverable, and never another number."""

from __future__ import annotations

import json
import resource
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import nn

from holdfast.benchmark import Job, Progress, bench, parse_suite, run
from holdfast.benchmark.recorder import Recorder
from holdfast.machine.folders import held, write_whole
from holdfast.models import MODELS
from holdfast.records import Row

SUITE = """\
name: small
models: [digits_resnet]
batch_size: 16
samples: 48
streams: [{name: continual, data: {name: digits, split: test}, corruptions: [contrast]}]
recipes: [source, tent]
"""
ORACLE = """\
name: small
protocol: offline-oracle
epochs: 3
models: [digits_resnet]
batch_size: 16
streams:
  - name: reset_each_shift
    data: {name: digits, split: test}
    corruptions: [gaussian_noise, contrast]
    samples_per_domain: 40
recipes: [{name: tent, lr: 0.3}]
"""


class KillError(Exception):
    pass


def rows(folder: Path) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in (folder / "rows.jsonl").read_text().splitlines()]
    return [{key: value for key, value in row.items() if key != "step_seconds"} for row in lines]


def killed_after(job: Job, runs: Path, calls: int, **options: Any) -> None:
    """Run a job until its progress was reported a number of times."""
    left = iter(range(calls))

    def kill(_: Progress) -> None:
        if next(left, None) is None:
            raise KillError

    with pytest.raises(KillError):
        run(job, runs, progress=kill, **options)


@pytest.mark.slow
def test_the_best_epoch_of_an_oracle_belongs_to_its_set(tmp_path: Path) -> None:
    """A state saved in the first set must not find the best epoch of the second."""
    (job,) = parse_suite(ORACLE).jobs()
    whole = run(job, tmp_path / "whole")
    killed_after(job, tmp_path / "killed", 8, checkpoint_seconds=0.0)  # in the last epoch of the first set
    folder = tmp_path / "killed" / job.suite / job.name
    early = (folder / "state.safetensors").read_bytes()
    killed_after(job, tmp_path / "killed", 8)  # in the second set; nothing is saved
    assert (folder / "state.safetensors").read_bytes() == early
    assert list(folder.glob("best-40-*"))
    run(job, tmp_path / "killed")
    assert rows(folder) == rows(whole)
    sets = [json.loads((each / "summary.json").read_text())["sets"] for each in (folder, whole)]
    assert sets[0] == sets[1]
    assert any(each["chosen_epoch"] < 3 for each in sets[0])
    assert not list(folder.glob("best-*"))


@pytest.mark.parametrize("error", [TypeError("no such option"), SafetensorError("disk is full"), ZeroDivisionError()])
def test_any_exception_of_a_job_is_its_outcome(error: Exception, tmp_path: Path) -> None:
    @MODELS.register("test_broken")
    def broken() -> None:
        """A network that cannot be built."""
        raise error

    try:
        jobs = parse_suite(SUITE.replace("[digits_resnet]", "[test_broken, digits_resnet]")).jobs()
        outcomes = bench(jobs, tmp_path)
    finally:
        MODELS.discard("test_broken")
    assert [outcome.error is None for outcome in outcomes] == [False, False, True, True]
    assert str(outcomes[0].error).startswith(type(error).__name__)


@pytest.mark.parametrize("damage", ['{"protocol": ', "[]", '{"schema": 1}'])
def test_a_damaged_manifest_is_the_outcome_of_its_job(damage: str, tmp_path: Path) -> None:
    jobs = parse_suite(SUITE).jobs()
    folder = tmp_path / jobs[0].suite / jobs[0].name
    folder.mkdir(parents=True)
    (folder / "manifest.json").write_text(damage)
    outcomes = bench(jobs, tmp_path)
    assert "manifest.json is " in str(outcomes[0].error)
    assert outcomes[1].error is None


def test_rows_that_were_lost_are_not_filled_with_zeros(tmp_path: Path) -> None:
    job = parse_suite(SUITE).jobs()[1]
    killed_after(job, tmp_path, 2, checkpoint_seconds=0.0)
    path = tmp_path / job.suite / job.name / "rows.jsonl"
    path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises(ValueError, match="rows were lost, so delete the folder to start this run again"):
        run(job, tmp_path)
    assert b"\0" not in path.read_bytes()


def test_a_finished_run_with_other_weights_is_not_finished(tmp_path: Path) -> None:
    weights = tmp_path / "mine.safetensors"
    network = nn.Sequential(nn.Conv2d(3, 10, 3, stride=4), nn.BatchNorm2d(10), nn.AdaptiveAvgPool2d(1), nn.Flatten())

    @MODELS.register("test_weighted")
    def weighted() -> nn.Module:
        """A network with weights from a file."""
        network.load_state_dict(load_file(weights))
        return network

    try:
        save_file(network.state_dict(), weights)
        jobs = parse_suite(SUITE.replace("[digits_resnet]", "[test_weighted]")).jobs()
        assert all(outcome.error is None for outcome in bench(jobs, tmp_path / "runs") + bench(jobs, tmp_path / "runs"))
        save_file({name: tensor + 1 for name, tensor in network.state_dict().items()}, weights)
        for outcome in bench(jobs, tmp_path / "runs"):
            assert "was finished with other weights than test_weighted has now" in str(outcome.error)
        weights.unlink()
        assert run(jobs[0], tmp_path / "runs").exists()  # its numbers are still those of its manifest
    finally:
        MODELS.discard("test_weighted")


@pytest.fixture
def images(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "images"
    for name in "abcdefghij":
        (folder / name).mkdir(parents=True)
        for number in range(2):
            Image.new("RGB", (32, 32), (99 * number, 0, 0)).save(folder / name / f"{number}.png")
    yield folder
    shutil.rmtree(folder)


def test_a_finished_run_with_other_data_is_not_finished(images: Path, tmp_path: Path) -> None:
    data = f"{{name: image_folder, folder: {images}, resize: null, crop: null}}"
    job = parse_suite(SUITE.replace("{name: digits, split: test}", data)).jobs()[0]
    run(job, tmp_path / "runs")
    run(job, tmp_path / "runs")
    Image.new("RGB", (32, 32), (255, 255, 255)).save(images / "a" / "0.png")
    with pytest.raises(ValueError, match="another stream or other data"):
        run(job, tmp_path / "runs")


def test_a_finished_run_follows_its_place_in_a_changed_suite(tmp_path: Path) -> None:
    job = parse_suite(SUITE).jobs()[1]
    folder = run(job, tmp_path)
    moved = parse_suite(SUITE.replace("[source, tent]", "[tent, source]") + "averages: {all: [continual]}\n").jobs()[0]
    assert run(moved, tmp_path) == folder
    manifest = json.loads((folder / "manifest.json").read_text())
    assert (manifest["place"], manifest["averages"]) == (0, {"all": ["continual"]})


def test_a_run_of_another_process_is_left_to_it(tmp_path: Path) -> None:
    jobs = parse_suite(SUITE).jobs()
    folder = tmp_path / jobs[0].suite / jobs[0].name
    folder.mkdir(parents=True)
    with held(folder):
        outcomes = bench(jobs, tmp_path)
    assert sorted((outcome.job.recipe.name, outcome.in_use, outcome.error) for outcome in outcomes) == [
        ("source", True, None),
        ("tent", False, None),
    ]
    assert all(outcome.folder for outcome in bench(jobs, tmp_path))


def test_temporary_files_of_killed_saves_are_deleted(tmp_path: Path) -> None:
    job = parse_suite(SUITE).jobs()[1]
    folder = tmp_path / job.suite / job.name
    folder.mkdir(parents=True)
    for name in (".state.safetensors.0123456789abcdef.partial", ".manifest.json.77.partial"):
        (folder / name).write_bytes(b"half")
    run(job, tmp_path)
    names = {path.name for path in folder.iterdir()}
    assert names == {"lock", "manifest.json", "rows.jsonl", "rows.parquet", "state.safetensors", "summary.json"}


@contextmanager
def files_up_to(size: int) -> Iterator[None]:
    """Refuse to write more bytes into a file, as a full disk does."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize(("size", "file"), [(100, "manifest.json"), (10_000, "strips/")])
def test_a_full_disk_is_the_outcome_of_its_jobs_and_names_the_file(size: int, file: str, tmp_path: Path) -> None:
    jobs = parse_suite(SUITE).jobs()
    with files_up_to(size):
        outcomes = bench(jobs, tmp_path)
    for outcome in outcomes:
        assert file in str(outcome.error)
        assert "cannot be written (File too large); make room or choose another folder" in str(outcome.error)
    assert all(outcome.error is None for outcome in bench(jobs, tmp_path))


def test_rows_and_states_that_do_not_fit_are_named(tmp_path: Path) -> None:
    row = Row(0, 1, {"fog": (1, 1)}, 1.0, 1.0, 0.0, None, {}, None, None, 1.0, 0.0, 0.1)
    with files_up_to(10), Recorder(tmp_path / "rows.jsonl") as recorder:  # closing it raises nothing
        recorder.write(row)
        with pytest.raises(OSError, match=r"rows\.jsonl cannot be written \(File too large\)"):
            recorder.sync()
        with pytest.raises(OSError, match=r"state\.safetensors cannot be written \(File too large\)"):
            write_whole(tmp_path / "state.safetensors", bytes(100), durably=True)
    assert [path.name for path in tmp_path.iterdir()] == ["rows.jsonl"]


def test_an_unreadable_file_is_the_outcome_of_the_runs_that_read_it(images: Path, tmp_path: Path) -> None:
    Image.fromarray(np.ones((32, 32), np.float32)).save(images / "a" / "0.tif")
    data = f"{{name: image_folder, folder: {images}, resize: null, crop: null}}"
    good = "{name: continual, data: {name: digits, split: test}, corruptions: [contrast]}"
    jobs = parse_suite(
        SUITE.replace(f"[{good}]", f"[{good.replace('{name: digits, split: test}', data)}, {good}]")
    ).jobs()
    outcomes = {outcome.job.data.name: str(outcome.error) for outcome in bench(jobs, tmp_path)}
    assert "0.tif is not a readable image" in outcomes["image_folder"]
    assert outcomes["digits"] == "None"
