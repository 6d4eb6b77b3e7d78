"""The executor `slurm`: items as jobs of a Slurm cluster, submitted by submitit."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from typing import Any

from holdfast.benchmark.executors.base import EXECUTORS, Executor, Lost
from holdfast.machine.extras import extra
from holdfast.machine.stopping import stop_if_asked

POLL = 1.0  # seconds after which finished jobs and a stop are noticed
CLUSTER = "HOLDFAST_SLURM_CLUSTER"  # local runs the jobs on this machine; by default the cluster that submitit finds
SETTINGS = "HOLDFAST_SLURM"  # settings of submitit, such as "timeout_min=240 slurm_partition=gpu gpus_per_node=1"
LOGS = "HOLDFAST_SLURM_LOGS"  # a folder that all nodes see; by default .slurm in the current one


def slurm(work: Callable[[Any], Any], items: Sequence[Any], workers: int = 2) -> Iterator[Any]:
    """Run items as Slurm jobs, at most `workers` at a time; a preempted job is queued again and resumes."""
    submitit = _submitit()
    executor = submitit.AutoExecutor(folder=os.environ.get(LOGS, ".slurm"), cluster=os.environ.get(CLUSTER))
    executor.update_parameters(**_settings(os.environ.get(SETTINGS, "")))
    left, running = list(items), dict[Any, Any]()
    try:
        while left or running:
            stop_if_asked()
            while left and len(running) < workers:
                item = left.pop(0)
                running[executor.submit(Resumable(work), item)] = item
            done = [job for job in running if job.done()]
            for job in done:
                item, error = running.pop(job), job.exception()
                yield job.result() if error is None else Lost(item, f"its Slurm job {job.job_id} failed: {error}")
            if not done:
                time.sleep(POLL)
    finally:
        for job in running:
            job.cancel()


class Resumable:
    """Work that Slurm may interrupt: the same call again resumes the runs from their last checkpoint."""

    def __init__(self, work: Callable[[Any], Any]) -> None:
        self.work = work

    def __call__(self, item: Any) -> Any:
        """Work on an item."""
        return self.work(item)

    def checkpoint(self, item: Any) -> Any:
        """Return what to submit when the job is preempted: the same, since states are saved every few seconds."""
        return _submitit().helpers.DelayedSubmission(self, item)


def _say_nothing(_progress: Any) -> None:
    """Leave progress unsaid: jobs of a batch system report through their files."""


def _settings(text: str) -> dict[str, Any]:
    """Return settings as submitit takes them.

    >>> _settings("timeout_min=240 slurm_partition=gpu")
    {'timeout_min': 240, 'slurm_partition': 'gpu'}
    """
    pairs = (word.partition("=") for word in text.split())
    return {key: int(value) if value.isdigit() else value for key, _, value in pairs}


def _submitit() -> Any:
    return extra("slurm", "submitit", "the executor slurm needs")


EXECUTORS.register("slurm")(
    Executor(
        slurm,
        shares_memory=False,
        summary="Jobs of a Slurm cluster, by submitit.",
        reach=lambda _: nullcontext(_say_nothing),
    )
)
