"""Executors: where a job is run, and nothing else. All have one signature."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from typing import Any, TypeAlias, TypeVar

from holdfast.registry import Registry

__all__ = ["EXECUTORS", "Executor", "processes", "serial"]

Item = TypeVar("Item")
Result = TypeVar("Result")
Executor: TypeAlias = Callable[[Callable[[Item], Result], Sequence[Item], int], Iterator[Result]]

EXECUTORS: Registry[Executor[Any, Any]] = Registry("executor", "executors")


@EXECUTORS.register("serial")
def serial(work: Callable[[Item], Result], items: Sequence[Item], workers: int = 1) -> Iterator[Result]:
    """One after the other, in this process.

    >>> list(serial(abs, [-1, 2]))
    [1, 2]
    """
    return map(work, items)


@EXECUTORS.register("processes")
def processes(work: Callable[[Item], Result], items: Sequence[Item], workers: int = 2) -> Iterator[Result]:
    """Several at a time, each in a process of its own; results come as they are ready."""
    # Spawned, not forked: torch's thread pools do not survive a fork.
    with ProcessPoolExecutor(workers, multiprocessing.get_context("spawn")) as pool:
        try:
            for future in as_completed([pool.submit(work, item) for item in items]):
                yield future.result()
        except BrokenProcessPool as error:
            raise RuntimeError("a worker process died; run again, and what was finished will be kept") from error
