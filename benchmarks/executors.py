"""Efficiency of executors on jobs of about a minute: python benchmarks/executors.py --executor processes --workers 2.

Prints the serial time divided by the number of workers and by the time of the other: 1 is ideal, the goal is 0.85.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

from measured import add_json, write

from holdfast.benchmark import bench, load_suite


def seconds(executor: str, workers: int, samples: int) -> float:
    """Return how long a suite of one recipe on as many seeds as workers takes, without sharing batches."""
    overrides = {"seeds": list(range(workers)), "recipes": ["tent"], "samples": samples, "streams.0.cycles": None}
    jobs = load_suite("demo", overrides).jobs()
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        outcomes = bench(jobs, Path(folder), executor=executor, workers=workers, together=1, render_workers=0)
    assert all(outcome.error is None for outcome in outcomes), outcomes
    return time.perf_counter() - began


def main() -> None:
    """Run the same jobs by both executors, and print the efficiency."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--executor", default="processes")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--samples", type=int, default=30_000)
    add_json(parser)
    given = parser.parse_args()
    seconds("serial", 1, 64)  # the first run of a process imports what the others find
    alone = seconds("serial", given.workers, given.samples)
    shared = seconds(given.executor, given.workers, given.samples)
    efficiency = alone / given.workers / shared
    print(f"serial {alone:.1f} s, {given.executor} {shared:.1f} s: efficiency {efficiency:.2f}")
    found = {"executor": given.executor, "workers": given.workers, "samples": given.samples}
    write(given.json, {**found, "serial_seconds": alone, "seconds": shared, "efficiency": efficiency})


if __name__ == "__main__":
    main()
