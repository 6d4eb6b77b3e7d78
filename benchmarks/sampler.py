"""Measure the time of a Markov plan: `python benchmarks/sampler.py [--samples 750000] [--classes 1000] [--repeats 1]`.

Plans with image indices for 15 domains × 1000 classes, in each of the 24 settings of UniTTA and both modes; then one
batch at a distant position of an endless cross stream. Times are the minimum processor time of the repeats on one
thread; the ratio is to a loop over single steps in the same run. Memory is the peak allocation.
"""

from __future__ import annotations

import os

os.environ["OMP_NUM_THREADS"] = "1"  # before numpy reads it

import argparse
import time
import tracemalloc
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from measured import run

from holdfast.records import Domain
from holdfast.streams import (
    UNITTA_DOMAINS,
    UNITTA_SETTINGS,
    Calibration,
    Chain,
    CrossPlan,
    MarkovPlan,
    Transition,
    Walk,
)

IMAGES_PER_CLASS = 50


def plan_of(setting: str, labels: np.ndarray, **options: object) -> MarkovPlan:
    """Return the plan of one setting; it loads no images."""
    chains = UNITTA_SETTINGS[setting]
    domains = [Domain(name) for name in UNITTA_DOMAINS]
    classes = Chain(size=int(labels.max()) + 1, **chains["classes"])
    return MarkovPlan(domains, labels, Chain(size=len(domains), **chains["domains"]), [classes], **options)  # type: ignore[arg-type]


def read_all(setting: str, labels: np.ndarray, **options: object) -> int:
    """Build a plan, read all of it as a stream would, and return its length."""
    plan = plan_of(setting, labels, **options)
    return len(plan.picks(0, plan.length or 0))


def step_by_step(samples: int, classes: int) -> None:
    """Sample one step at a time, and deal images from the queue of each domain and class."""
    rng = np.random.default_rng(0)
    chains = Chain(size=15, stay=0.85, imbalance=5), Chain(size=classes, stay=0.95, imbalance=10)
    (domain_stays, class_stays), draws = [chain.stays.tolist() for chain in chains], rng.random((samples, 2)).tolist()
    domain = class_ = 0
    dealt = [[0] * classes for _ in range(15)]
    for leave_domain, leave_class in draws:
        if leave_domain >= domain_stays[domain]:
            domain = (domain + int(rng.integers(1, 15))) % 15
        if leave_class >= class_stays[class_]:
            class_ = (class_ + int(rng.integers(1, classes))) % classes
        dealt[domain][class_] = (dealt[domain][class_] + 1) % IMAGES_PER_CLASS


def seconds(call: Callable[[], object], repeats: int) -> float:
    """Return the minimum processor time of repeated calls."""
    times = []
    for _ in range(repeats):
        start = time.process_time()
        call()
        times.append(time.process_time() - start)
    return min(times)


def peak_mb(call: Callable[[], object]) -> float:
    """Return the peak allocation during a call, in MB."""
    tracemalloc.start()
    call()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak / 1e6


def far_out(classes: int) -> float:
    """Return the seconds for the first batch at position 10¹² of an endless cross stream."""
    path = Transition("contrast", "brightness", ((2, 0), (1, 0), (1, 1), (0, 1)), (30.0, 50.0, 40.0, 60.0))
    labels = np.arange(IMAGES_PER_CLASS * classes) % classes
    walk = Walk(Calibration((path,), 40.0), len(labels))
    plan = CrossPlan(walk, labels, Chain(size=classes, stay=0.95, imbalance=10))
    return seconds(lambda: plan.picks(10**12, 10**12 + 64), 1)


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Return seconds and peak memory of each setting, the worst of them, and the time of a distant batch."""
    samples, classes = 75_000 if options.quick else options.samples, options.classes
    labels = np.arange(IMAGES_PER_CLASS * classes) % classes
    steps = samples // 10
    slow = seconds(lambda: step_by_step(steps, classes), options.repeats) / steps
    rows: dict[str, dict[str, float]] = {}
    for setting in UNITTA_SETTINGS:
        call = partial(read_all, setting, labels, samples=samples)
        official = seconds(partial(read_all, setting, labels, mode="official"), 1)
        took, peak = seconds(call, options.repeats), peak_mb(call)
        ratio = slow * samples / took
        rows[setting] = {"seconds": took, "peak_mb": peak, "times_faster": ratio, "official_mode_seconds": official}
    worst = {name: max(row[name] for row in rows.values()) for name in ("seconds", "peak_mb")}
    given = {"samples": samples, "classes": classes, "position_1e12_seconds": far_out(classes)}
    return {**given, "worst": worst, "settings": rows}


def main() -> None:
    """Measure in several processes."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--samples", type=int, default=750_000)
    parser.add_argument("--classes", type=int, default=1000)
    parser.add_argument("--repeats", type=int, default=1)
    run(parser, measure)


if __name__ == "__main__":
    main()
