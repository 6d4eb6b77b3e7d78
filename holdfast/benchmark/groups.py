"""Groups: jobs that see the same batches, so that each batch is rendered once for all of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from holdfast.benchmark.job import Job


def groups_of(jobs: Sequence[Job], *, at_least: int = 1, at_most: int = 10) -> list[tuple[Job, ...]]:
    """Return the jobs in groups of at most `at_most` with the same model, stream, data, seed and placement.

    Offline jobs are groups of one, because each adapts to a set for epochs. The largest groups are divided until there
    are `at_least`, so that no worker is idle; then a batch is rendered once for each part.
    """
    if at_most < 1:
        raise ValueError(f"together must be at least 1, got {at_most}")
    by_key: dict[Any, list[Job]] = {}
    for number, job in enumerate(jobs):
        by_key.setdefault(_key(job) if job.is_online else number, []).append(job)
    groups = [
        tuple(same[first : first + at_most]) for same in by_key.values() for first in range(0, len(same), at_most)
    ]
    while len(groups) < at_least and max(map(len, groups), default=1) > 1:
        largest = max(range(len(groups)), key=lambda index: len(groups[index]))
        group = groups[largest]
        groups[largest : largest + 1] = [group[: len(group) // 2], group[len(group) // 2 :]]
    return groups


def _key(job: Job) -> tuple[Any, ...]:
    return (job.suite, job.model, job.stream, job.data, job.seed, job.batch_size, job.samples, job.placement)
