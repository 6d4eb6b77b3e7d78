"""What an executor is: where jobs run, and how their progress is reported."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from multiprocessing.managers import SyncManager
from typing import Any

from holdfast.machine.children import CHILDREN
from holdfast.options.own_code import WithOwnFiles, loaded_files
from holdfast.registry import Registry

Tell = Callable[[Any], None]


@dataclass(frozen=True)
class Lost:
    """The result of an item that has none: its worker died each time."""

    item: Any
    reason: str


@contextmanager
def queued(tell: Tell) -> Iterator[Tell]:
    """Yield a function that other processes of this machine can call, and that calls `tell` here."""
    with SyncManager(ctx=CHILDREN) as manager:
        queue = manager.Queue()

        def listen() -> None:
            while (progress := queue.get()) is not None:
                tell(progress)

        listener = threading.Thread(target=listen, daemon=True)
        listener.start()
        try:
            yield queue.put
        finally:
            queue.put(None)
            listener.join()


@dataclass(frozen=True)
class Executor:
    """A function that yields the results of `work` for all items, and where it runs them.

    >>> list(EXECUTORS["serial"].execute(abs, [-1, 2], 1))
    [1, 2]
    """

    execute: Callable[[Callable[[Any], Any], Sequence[Any], int], Iterator[Any]]  # work, items, workers
    shares_memory: bool  # with the caller, so that work can call the caller's functions
    summary: str = ""  # one sentence for the catalogue
    reach: Callable[[Tell], AbstractContextManager[Tell]] = queued  # for workers that do not share memory

    def with_workers(self, workers: int) -> Callable[[Callable[[Any], Any], Sequence[Any]], Iterator[Any]]:
        """Return the function for a number of workers, for parts that know neither: `calibrate(…, execute=…)`.

        Your own files that are loaded here are loaded by the workers too.

        >>> list(EXECUTORS["serial"].with_workers(2)(abs, [-1, 2]))
        [1, 2]
        """
        return lambda work, items: self.execute(WithOwnFiles(loaded_files(), work), items, workers)


EXECUTORS: Registry[Executor] = Registry("executor", "executors")
