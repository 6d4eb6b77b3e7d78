"""A whole suite: every job through an executor, failures kept apart from results."""

from __future__ import annotations

import multiprocessing
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from holdfast.benchmark.executors import EXECUTORS
from holdfast.benchmark.run import Progress, run
from holdfast.benchmark.suite import Job, Suite

__all__ = ["Outcome", "bench"]


@dataclass(frozen=True)
class Outcome:
    """How a job ended: its folder, or the error that stopped it."""

    job: str
    folder: Path | None = None
    error: str | None = None


def bench(
    suite: Suite,
    runs: Path,
    *,
    executor: str = "serial",
    workers: int = 2,
    checkpoint_seconds: float = 10.0,
    progress: Callable[[Progress], None] | None = None,
) -> list[Outcome]:
    """Run every job of a suite that is not finished yet; one that fails does not stop the others."""
    execute = EXECUTORS[executor]
    with _across_processes(progress, executor != "serial") as tell:
        work = partial(_attempt, runs=runs, checkpoint_seconds=checkpoint_seconds, progress=tell)
        return list(execute(work, suite.jobs(), workers))


def _attempt(job: Job, runs: Path, checkpoint_seconds: float, progress: Callable[[Progress], None] | None) -> Outcome:
    try:
        return Outcome(job.name, run(job, runs, checkpoint_seconds=checkpoint_seconds, progress=progress))
    except (ValueError, RuntimeError, OSError, ImportError) as error:
        return Outcome(job.name, error=f"{type(error).__name__}: {error}")


@contextmanager
def _across_processes(tell: Callable[[Progress], None] | None, apart: bool) -> Iterator[Any]:
    """Give workers something they can call wherever they are, and hear it here."""
    if tell is None or not apart:
        yield tell
        return
    with multiprocessing.get_context("spawn").Manager() as manager:
        queue = manager.Queue()

        def listen() -> None:
            while (word := queue.get()) is not None:
                tell(word)

        listener = threading.Thread(target=listen, daemon=True)
        listener.start()
        try:
            yield queue.put
        finally:
            queue.put(None)
            listener.join()
