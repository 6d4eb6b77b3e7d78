"""Measure what `holdfast recommend digits_resnet digits` costs: python benchmarks/recommend.py [--json FILE].

Figures are seconds of processor time on one thread, for the race of all candidates and for one pass of its stream, and
the race in passes.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from measured import run

from holdfast.benchmark import bench
from holdfast.commands.recommend import plan_trial, run_trial, scenario_of


def measure(_options: argparse.Namespace) -> dict[str, Any]:
    """Return the cost of a recommendation."""
    torch.set_num_threads(1)
    trial = plan_trial("digits_resnet", "digits", scenario_of(""))
    expected = trial.seconds()
    with tempfile.TemporaryDirectory() as folder:
        began = time.process_time()
        ranking = run_trial(trial, Path(folder) / "race", max_time=float("inf"), worth=1.0, tell=None)
        raced = time.process_time()
        source = [job for job in trial.jobs if job.recipe.label == "source" and job.seed == 0]
        bench(source, Path(folder) / "pass")
        ended = time.process_time()
    race, one = raced - began, ended - raced
    return {
        "race_cpu_seconds": race,
        "pass_cpu_seconds": one,
        "process_cpu_seconds": ended,
        "estimated_seconds": expected,
        "passes_of_the_stream": race / one,
        "candidates": len(trial.candidates),
        "conclusion": ranking.conclusion,
    }


if __name__ == "__main__":
    run(argparse.ArgumentParser(description=__doc__.split("\n")[0]), measure)
