"""`holdfast calibrate` on every executor: the walk of a serial call, and what a stop leaves behind."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from torch import nn
from typer.testing import CliRunner

from holdfast.benchmark.executors import EXECUTORS
from holdfast.calibration import CalibrationProgress, CalibrationSettings
from holdfast.calibration.meter import Meter
from holdfast.cli import app
from holdfast.data import InMemoryImages
from holdfast.machine.stopping import Stopped

QUICK = ["calibrate", "--target", "60", "--pairs", "1", "--images", "20", "--crop", "none"]


def calibrated(folder: Path, *options: str) -> dict[str, Any]:
    """Return the calibration that the command prints, measured in a cache of its own."""
    words = [*QUICK, *options, "--out", str(folder / "out"), "--json"]
    result = CliRunner().invoke(app, words, env={"HOLDFAST_CACHE": str(folder)}, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    printed: dict[str, Any] = json.loads(result.stdout)
    return printed


def needs(package: str, executor: str) -> Any:
    absent = importlib.util.find_spec(package) is None
    reason = f"{package} is not installed (pip install 'holdfast[{executor}]')"
    return pytest.param(executor, marks=pytest.mark.skipif(absent, reason=reason))


@pytest.mark.slow
@pytest.mark.parametrize("executor", [needs("ray", "ray"), needs("submitit", "slurm")])
@pytest.mark.filterwarnings("ignore")
def test_a_cluster_measures_the_walk_of_a_serial_call(
    executor: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST_SLURM_CLUSTER", "local")
    monkeypatch.setenv("HOLDFAST_SLURM_LOGS", str(tmp_path / "logs"))
    entry, results = EXECUTORS[executor], list[Any]()

    def noted(work: Callable[[Any], Any], pairs: Sequence[Any], workers: int) -> Iterator[Any]:
        for result in entry.execute(work, pairs, workers):
            results.append(result)
            yield result

    EXECUTORS.discard(executor)
    EXECUTORS.register(executor)(replace(entry, execute=noted))
    try:
        on_cluster = calibrated(tmp_path / executor, "--executor", executor, "--workers", "1")
    finally:
        EXECUTORS.discard(executor)
        EXECUTORS.register(executor)(entry)
        if executor == "ray":
            import ray

            ray.shutdown()
    (job,) = results
    assert isinstance(job, CalibrationProgress)  # and not lost, which the caller would make good
    assert job.done > 100
    assert on_cluster == calibrated(tmp_path / "serial")


def measured(cache: Path) -> int:
    """Return the number of stored predictions."""
    total = 0
    for file in cache.rglob("*.npz"):
        with np.load(file) as outcomes:
            total += sum(len(outcomes[name]) for name in outcomes.files)
    return total


@pytest.mark.slow
def test_a_stopped_command_keeps_its_measurements_and_says_how_to_resume(tmp_path: Path) -> None:
    words = ["calibrate", "--images", "200", "--executor", "processes", "--out", str(tmp_path / "out")]
    process = subprocess.Popen(
        [sys.executable, "-m", "holdfast", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, "HOLDFAST_CACHE": str(tmp_path), "OMP_NUM_THREADS": "1"},
    )
    try:
        while not [folder for folder in tmp_path.rglob("*+*") if folder.is_dir()]:  # the lock of a pair
            assert process.poll() is None
            time.sleep(0.1)
        time.sleep(1)
        before = measured(tmp_path)
        began = time.monotonic()
        process.send_signal(signal.SIGINT)
        _, printed = process.communicate(timeout=30)
    finally:
        process.kill()
    assert time.monotonic() - began < 20
    assert process.returncode == 130
    assert "run the same command again to go on from the kept measurements" in printed
    assert measured(tmp_path) > before


def test_outcomes_measured_before_a_stop_are_kept(
    model: nn.Module, few: InMemoryImages, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def meter_of() -> Meter:
        settings = CalibrationSettings(pictures=30, crop="none")
        return Meter(model, few, settings, cache=tmp_path, tell=lambda _: None)

    def stop() -> None:
        if next(checks, None) == 2:
            raise Stopped

    checks = iter([1, 2])
    monkeypatch.setattr("holdfast.calibration.meter.stop_if_asked", stop)
    treatments = [(("contrast", level),) for level in (4, 8, 12, 16)]
    with pytest.raises(Stopped):
        meter_of().outcomes(treatments, 30)
    again = meter_of()
    again.outcomes(treatments, 30)
    assert again.saved == again.done == 60
