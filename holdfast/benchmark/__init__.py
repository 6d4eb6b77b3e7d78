"""Suites, jobs and runs: each run has a folder, resumes when interrupted, and keeps what determines its numbers."""

from holdfast.benchmark.attempt import Progress
from holdfast.benchmark.bench import Outcome, bench
from holdfast.benchmark.executors import EXECUTORS, Executor
from holdfast.benchmark.job import Job
from holdfast.benchmark.running import run
from holdfast.benchmark.schema import Suite
from holdfast.benchmark.suite import SuiteError, load_suite, parse_suite, suite_names

__all__ = [
    "EXECUTORS",
    "Executor",
    "Job",
    "Outcome",
    "Progress",
    "Suite",
    "SuiteError",
    "bench",
    "load_suite",
    "parse_suite",
    "run",
    "suite_names",
]
