"""Executors: where jobs run. All have the same signature and give the same results."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from typing import Any, TypeVar

from holdfast.registry import Registry

__all__ = ["EXECUTORS", "Executor", "processes", "serial"]

Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(frozen=True)
class Executor:
    """A function that yields the results of `work` for all items, and where it runs them.

    >>> list(EXECUTORS["serial"].execute(abs, [-1, 2], 1))
    [1, 2]
    """

    execute: Callable[[Callable[[Any], Any], Sequence[Any], int], Iterator[Any]]  # work, items, workers
    shares_memory: bool  # with the caller, so that work can call the caller's functions
    summary: str = ""


def serial(work: Callable[[Item], Result], items: Sequence[Item], _workers: int = 1) -> Iterator[Result]:
    """Run one item after the other in this process.

    >>> list(serial(abs, [-1, 2]))
    [1, 2]
    """
    return map(work, items)


def processes(work: Callable[[Item], Result], items: Sequence[Item], workers: int = 2) -> Iterator[Result]:
    """Run several items at a time in spawned processes; results are yielded as they are ready."""
    # Spawned, not forked: torch's thread pools do not survive a fork.
    with ProcessPoolExecutor(workers, multiprocessing.get_context("spawn")) as pool:
        try:
            for future in as_completed([pool.submit(work, item) for item in items]):
                yield future.result()
        except BrokenProcessPool as error:
            raise RuntimeError("a worker process died; run the command again, finished runs are kept") from error


EXECUTORS: Registry[Executor] = Registry("executor", "executors")
EXECUTORS.register("serial")(Executor(serial, shares_memory=True, summary="One job after the other in this process."))
EXECUTORS.register("processes")(
    Executor(processes, shares_memory=False, summary="Several jobs at a time, each in a process of its own.")
)
