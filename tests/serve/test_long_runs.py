"""The committed long runs of a service: 100 kills under load with labels, and 5 000 requests of 200 tenants."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
KILLS, SOAK = ROOT / "benchmarks" / "kills_serve.py", ROOT / "benchmarks" / "soak_serve.py"


def measured(path: Path) -> Any:
    """Return the figures of a result."""
    if not path.exists():
        pytest.skip("the results are not beside the tests")
    return json.loads(path.read_text())["measured"]


def test_a_hundred_kills_lost_nothing_that_was_answered() -> None:
    result = measured(ROOT / "results" / "kills-serve.json")
    assert result["kills"] >= 100
    assert not any(result["lost"].values()), result["lost"]
    assert {"broken chain", "labels", "bounds", "unlogged batches", "stale states"} <= result["lost"].keys()
    assert min(result["compared"]["labels"], result["compared"]["bounds"]) >= 50


def test_memory_is_constant_over_thousands_of_requests() -> None:
    result = measured(ROOT / "results" / "soak-serve.json")
    assert (result["requests"], result["tenants"], result["refused"]) == (5000, 200, 0)
    assert result["growth_mb"] < 16


@pytest.mark.slow
@pytest.mark.skipif(not KILLS.exists(), reason="the benchmarks are not beside the tests")
def test_the_programs_of_the_long_runs_run(tmp_path: Path) -> None:
    file = tmp_path / "result.json"
    subprocess.run([sys.executable, KILLS, "--kills", "1", "--json", file], check=True)
    subprocess.run([sys.executable, KILLS, "--kills", "2", "--more", "--json", file], check=True)
    assert measured(file)["kills"] == 2
    small = ["--requests", "40", "--tenants", "4", "--processes", "1"]
    subprocess.run([sys.executable, SOAK, *small, "--json", file], check=True)
    assert (measured(file)["requests"], measured(file)["refused"]) == (40, 0)
