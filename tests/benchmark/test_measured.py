"""Benchmarks write medians and spread of several processes, and figures outside the committed ones are named."""

from __future__ import annotations

import json
import os
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks"
# These write their own files, or measure neither speed nor memory.
NO_SPEED = {"claims", "collapse", "condense", "evidence", "guard", "hostile", "kills", "kills_serve"}
NO_SPEED |= {"interval_coverage", "ordinary", "promise", "training"}
PARTS = {"all", "check", "measured", "targets"}
pytestmark = pytest.mark.skipif(not FOLDER.exists(), reason="the benchmarks are not beside the tests")
BENCHMARK = """\
import argparse, os
from measured import run

def measure(options):
    value = {0: 2.5, 1: 2.0, 2: 3.5}[options.process]
    first = {"held": 7} if options.process == 0 else {}
    return {"tent": {"forwards": value, "process": os.getpid(), **first}, "rounds": 3 if options.quick else 9}

run(argparse.ArgumentParser(), measure)
"""


def measured(tmp_path: Path, *arguments: str) -> dict[str, Any]:
    """Run a benchmark, and return what it has written."""
    (tmp_path / "bench.py").write_text(BENCHMARK)
    paths = os.pathsep.join([str(FOLDER), str(FOLDER.parent)])
    command = [sys.executable, str(tmp_path / "bench.py"), *arguments, "--json", str(tmp_path / "result.json")]
    subprocess.run(command, check=True, env={**os.environ, "PYTHONPATH": paths}, capture_output=True)
    content: dict[str, Any] = json.loads((tmp_path / "result.json").read_text())
    return content


def test_three_processes_give_the_median_and_the_spread(tmp_path: Path) -> None:
    content = measured(tmp_path)
    assert content["processes"] == 3
    assert content["measured"]["tent"]["forwards"] == 2.5
    assert content["spread"]["tent"]["forwards"] == [2.0, 3.5]
    low, high = content["spread"]["tent"]["process"]
    assert low < high, "the processes are not separate"
    assert content["measured"]["tent"]["held"] == 7
    assert content["measured"]["rounds"] == 9
    assert "rounds" not in content["spread"]
    assert {"processor", "cores", "load", "torch", "commit", "measured_at"} <= content["machine"].keys()
    assert content["machine"]["processor"]


def test_a_quick_run_is_one_process(tmp_path: Path) -> None:
    content = measured(tmp_path, "--quick")
    assert (content["processes"], content["quick"]) == (1, True)
    assert content["measured"]["rounds"] == 3
    assert "spread" not in content


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.py")), ids=lambda path: path.stem)
def test_every_benchmark_of_speed_is_repeated_and_part_of_all(path: Path) -> None:
    if path.stem in NO_SPEED | PARTS:
        return
    assert "run(" in path.read_text(), "measure by `run` of benchmarks/measured.py"
    assert "from measured import" in path.read_text()
    assert any(job.command.split()[0] == path.name for job in script("all")["JOBS"]), "add it to benchmarks/all.py"


def script(name: str) -> dict[str, Any]:
    """Return the names that a script of the benchmarks defines."""
    sys.path.append(str(FOLDER))
    try:
        return runpy.run_path(str(FOLDER / f"{name}.py"))
    finally:
        sys.path.remove(str(FOLDER))


def test_a_figure_is_printed_with_its_spread() -> None:
    names = script("measured")
    figure, lines = names["Figure"], names["lines"]
    assert figure(2.204, 2.151, 2.281).text() == "2.20 (2.15–2.28)"
    assert figure(0.031, 0.031, 0.031).text(1, 100) == "3.1"
    assert figure(1234.5, 1200, 1300.2).rounded() == "1234 (1200–1300)"
    median = {"rounds": 9, "tent": {"forwards": 2.5, "time / forward": 0.5, "format": "contiguous"}}
    spread = {"tent": {"forwards": [2.25, 2.75]}}
    assert list(lines(median, spread)) == [
        "all: rounds 9",
        "tent: forwards 2.50 (2.25–2.75), time / forward 0.50, format contiguous",
    ]


def test_every_result_has_targets() -> None:
    assert set(script("targets")["read_targets"]()) == {job.result for job in script("all")["JOBS"]}


def test_all_of_them_take_about_80_minutes() -> None:
    assert sum(job.minutes for job in script("all")["JOBS"]) <= 80


def test_figures_outside_the_spread_are_named(tmp_path: Path) -> None:
    names = script("targets")
    (tmp_path / "targets.toml").write_text(
        'tolerance = 0.1\n[cost]\ncompare = ["*/forwards"]\n[cost.aims]\n"tent/*" = { at_most = 2.25 }\n'
    )
    targets = names["read_targets"](tmp_path / "targets.toml")["cost"]
    figure = names["Figure"]
    committed = {"tent/forwards": figure(2.0, 1.9, 2.3), "eta/forwards": figure(2.0, 2.0, 2.0)}
    quick = {"tent/forwards": figure(2.45, 2.45, 2.45), "eta/forwards": figure(2.25, 2.25, 2.25)}
    assert list(targets.outside(quick, committed)) == [("eta/forwards", 2.25)]
    assert list(targets.outside({"tent/seconds": figure(9, 9, 9)}, {"tent/seconds": figure(1, 1, 1)})) == []
    (aim,) = targets.aims
    assert [(path, met) for path, _, met in aim.judged(committed)] == [("tent/forwards", True)]
    assert [met for *_, met in aim.judged(quick)] == [False]
    assert aim.text() == "at most 2.25"


def test_only_complete_results_of_this_commit_are_kept(tmp_path: Path) -> None:
    names, path = script("all"), tmp_path / "cost.json"
    commit = names["commit_of"]()
    for content, complete, complete_quick in (
        ({"machine": {"commit": commit}, "quick": False}, True, True),
        ({"machine": {"commit": commit}, "quick": True}, False, True),
        ({"machine": {"commit": "other"}, "quick": False}, False, False),
        ({"machine": {"commit": commit}}, False, False),  # from before results were repeated
    ):
        path.write_text(json.dumps(content))
        assert names["complete"](path, quick=False) is complete
        assert names["complete"](path, quick=True) is complete_quick
    assert not names["complete"](tmp_path / "missing.json", quick=True)
