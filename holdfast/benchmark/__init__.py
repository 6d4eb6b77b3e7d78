"""Suites -> jobs -> runs: one folder each, resumable, with everything that determines its numbers."""

from holdfast.benchmark.bench import Outcome, bench
from holdfast.benchmark.executors import EXECUTORS
from holdfast.benchmark.run import Progress, run
from holdfast.benchmark.suite import Job, Suite, SuiteError, load_suite, suite_names

__all__ = [
    "EXECUTORS",
    "Job",
    "Outcome",
    "Progress",
    "Suite",
    "SuiteError",
    "bench",
    "load_suite",
    "run",
    "suite_names",
]
