"""Stopping: Ctrl-C and SIGTERM save all runs and end all workers; workers end with their parent, however it ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast.benchmark import bench, parse_suite

SUITE = """\
name: small
models: [digits_resnet]
batch_size: 8
samples: 128
streams: [{name: continual, data: {name: digits, split: test}, corruptions: [contrast]}]
recipes: [source, {name: tent, lr: 0.01}]
"""
# A run of half a minute, whatever the machine: the steps wait.
PROGRAM = """\
import sys, time
from pathlib import Path
from holdfast.model.adapted import AdaptedModel
from holdfast.benchmark import bench, parse_suite
from holdfast.machine.stopping import Stopped

def wait(model, inputs, step=AdaptedModel.step):
    time.sleep(1)
    return step(model, inputs)

AdaptedModel.step = wait
if __name__ == "__main__":
    try:
        bench(parse_suite(Path(sys.argv[1]).read_text()).jobs(), Path(sys.argv[2]), executor=sys.argv[3])
    except Stopped as stopped:
        print(f"{time.time()} {stopped}", flush=True)
        sys.exit(130)
"""


def rows(folder: Path) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in (folder / "rows.jsonl").read_text().splitlines()]
    return [{key: value for key, value in row.items() if key != "step_seconds"} for row in lines]


def until(condition: Callable[[], object], seconds: float) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.05)


def alive_in(session: int) -> list[int]:
    """Return the living processes of a session."""
    processes = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                state, _, _, number = (entry / "stat").read_text().rpartition(")")[2].split()[:4]
            except OSError:
                continue
            if int(number) == session and state != "Z":
                processes.append(int(entry.name))
    return processes


@pytest.mark.slow
@pytest.mark.parametrize(
    ("executor", "number"),
    [("serial", signal.SIGTERM), ("processes", signal.SIGINT), ("processes", signal.SIGKILL)],
)
def test_a_signal_ends_everything_and_the_runs_resume(executor: str, number: signal.Signals, tmp_path: Path) -> None:
    jobs = parse_suite(SUITE).jobs()
    program, suite = tmp_path / "program.py", tmp_path / "suite.yaml"
    program.write_text(PROGRAM)
    suite.write_text(SUITE)
    folders = [tmp_path / "runs" / job.suite / job.name for job in jobs]
    process = subprocess.Popen(
        [sys.executable, program, suite, tmp_path / "runs", executor],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    try:
        until(lambda: all((folder / "manifest.json").exists() for folder in folders), 120)
        time.sleep(0.5)
        began = time.time()
        process.send_signal(number)
        process.wait(timeout=60)
        until(lambda: not alive_in(process.pid), 10)
    finally:
        for left in alive_in(process.pid):
            os.kill(left, signal.SIGKILL)
    ended, _, message = process.communicate()[0].partition(" ")
    assert not any((folder / "summary.json").exists() for folder in folders)
    if number != signal.SIGKILL:
        assert process.returncode == 130
        assert float(ended) - began < 10
        assert message.strip() == (
            "stopped: 0 of 2 runs are finished and the others are saved; run the same command again to resume them"
        )
        assert all((folder / "state.safetensors").exists() for folder in folders)
        assert 0 < len(rows(folders[0])) < 16
    again = bench(jobs, tmp_path / "runs")
    whole = bench(jobs, tmp_path / "whole")
    for resumed, expected in zip(again, whole, strict=True):
        assert resumed.folder is not None
        assert expected.folder is not None
        assert rows(resumed.folder) == rows(expected.folder)
