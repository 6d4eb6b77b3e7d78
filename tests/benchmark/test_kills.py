"""Runs whose parents and workers are killed at random resume with the same rows, and leave no process behind."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROGRAM, RESULT = ROOT / "benchmarks" / "kills.py", ROOT / "results" / "kills.json"


@pytest.mark.slow
@pytest.mark.skipif(not PROGRAM.exists(), reason="the benchmarks are not beside the tests")
def test_a_few_kills_change_no_row_and_leave_no_process(tmp_path: Path) -> None:
    file = tmp_path / "kills.json"
    subprocess.run([sys.executable, PROGRAM, "--kills", "2", "--samples", "320", "--json", file], check=True)
    measured = json.loads(file.read_text())["measured"]
    assert sum(measured["kills"].values()) == 2
    assert measured["rows_compared"] > 0
    assert measured["rows_compared"] % 160 == 0


@pytest.mark.skipif(not RESULT.exists(), reason="the results are not beside the tests")
def test_forty_kills_changed_no_row_and_left_no_process() -> None:
    measured = json.loads(RESULT.read_text())["measured"]
    assert sum(measured["kills"].values()) >= 40
    assert min(measured["kills"].values()) > 0
    assert measured["rows_compared"] > 0
    assert measured["rows_differing"] == measured["hung"] == measured["survivors"] == 0
