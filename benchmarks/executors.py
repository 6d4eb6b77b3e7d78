"""Efficiency of executors on jobs of about a minute: python benchmarks/executors.py --executor processes --workers 2.

Prints two ratios. The first is the time of all jobs one after the other, divided by the number of workers and by the
time of the executor: 1 is ideal, the goal is 0.85. Processes that run at the same time slow each other down by the
memory and caches that they share, which no executor can avoid: the second ratio is the time of the same jobs in as many
Python processes started by hand, divided by that of the executor.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch
from measured import add_json, write

from holdfast.benchmark import bench, load_suite


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
    commands = [[sys.executable, __file__, "--samples", str(samples), "--seed", str(seed)] for seed in seeds]
    started = [subprocess.Popen(command, stdout=subprocess.DEVNULL) for command in commands]
    assert not any(process.wait() for process in started)
    return time.perf_counter() - began


def main() -> None:
    """Run the same jobs one after the other, by hand and by an executor, and print the efficiency."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--executor", default="processes")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--samples", type=int, default=30_000)
    parser.add_argument("--seed", type=int, help=argparse.SUPPRESS)  # a process of `by_hand`
    add_json(parser)
    given = parser.parse_args()
    torch.set_num_threads(1)  # as in a worker
    if given.seed is not None:
        seconds("serial", 1, given.samples, [given.seed])
        return
    seeds = list(range(given.workers))
    seconds("serial", 1, 64, [0])  # the first run of a process imports what the others find
    alone = seconds("serial", 1, given.samples, seeds)
    apart = by_hand(given.samples, seeds)
    shared = seconds(given.executor, given.workers, given.samples, seeds)
    efficiency, of_machine = alone / given.workers / shared, apart / shared
    print(f"serial {alone:.1f} s, by hand {apart:.1f} s, {given.executor} {shared:.1f} s")
    print(f"efficiency {efficiency:.2f} of ideal, {of_machine:.2f} of what {given.workers} processes reach here")
    setting = {"executor": given.executor, "workers": given.workers, "samples": given.samples}
    times = {"serial_seconds": alone, "by_hand_seconds": apart, "seconds": shared}
    write(given.json, {**setting, **times, "efficiency": efficiency, "efficiency_of_machine": of_machine})


if __name__ == "__main__":
    main()
