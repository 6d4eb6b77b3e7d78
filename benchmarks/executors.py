"""Measure the efficiency of executors: python benchmarks/executors.py --executor processes --workers 2.

There are two ratios. The first is the time of all jobs one after the other, divided by the number of workers and by the
time of the executor: 1 is ideal. Processes that run at the same time slow each other down by the memory and caches that
they share, which no executor can avoid: the second ratio is the time of the same jobs in as many Python processes
started by hand, divided by that of the executor.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from measured import run

from holdfast.benchmark import bench, load_suite

_ONE = ("--process", "0", "--json", os.devnull)


def seconds(executor: str, workers: int, samples: int, seeds: list[int]) -> float:
    """Return how long a suite of one recipe on these seeds takes, without sharing batches."""
    overrides = {"seeds": seeds, "recipes": ["tent"], "samples": samples, "streams.0.cycles": None}
    jobs = load_suite("demo", overrides).jobs()
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        outcomes = bench(jobs, Path(folder), executor=executor, workers=workers, together=1, render_workers=0)
    assert all(outcome.error is None for outcome in outcomes), outcomes
    return time.perf_counter() - began


def by_hand(samples: int, seeds: list[int]) -> float:
    """Return how long the same jobs take in processes started by hand, one for each seed."""
    began = time.perf_counter()
    commands = [[sys.executable, __file__, *_ONE, "--samples", str(samples), "--seed", str(seed)] for seed in seeds]
    started = [subprocess.Popen(command, stdout=subprocess.DEVNULL) for command in commands]
    assert not any(process.wait() for process in started)
    return time.perf_counter() - began


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Run the same jobs one after the other, by hand and by an executor, and return times and efficiency."""
    torch.set_num_threads(1)  # as in a worker
    samples, workers = 1000 if options.quick else options.samples, options.workers
    if options.seed is not None:
        seconds("serial", 1, samples, [options.seed])
        return {}
    seeds = list(range(workers))
    seconds("serial", 1, 64, [0])  # the first run of a process imports what the others find
    alone = seconds("serial", 1, samples, seeds)
    apart = by_hand(samples, seeds)
    shared = seconds(options.executor, workers, samples, seeds)
    times = {"serial_seconds": alone, "by_hand_seconds": apart, "seconds": shared}
    ratios = {"efficiency": alone / workers / shared, "efficiency_of_machine": apart / shared}
    return {"executor": options.executor, "workers": workers, "samples": samples, **times, **ratios}


def main() -> None:
    """Measure in several processes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--executor", default="processes")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--samples", type=int, default=8_000)
    parser.add_argument("--seed", type=int, help=argparse.SUPPRESS)  # a process of `by_hand`
    run(parser, measure)


if __name__ == "__main__":
    main()
