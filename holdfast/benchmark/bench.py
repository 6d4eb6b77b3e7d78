"""Run all jobs of a suite through an executor; a job that fails does not stop the others."""

from __future__ import annotations

import multiprocessing
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from holdfast.benchmark.attempt import Progress
from holdfast.benchmark.executors import EXECUTORS
from holdfast.benchmark.job import Job
from holdfast.benchmark.running import run
from holdfast.folders import InUseError

__all__ = ["Outcome", "bench"]

Tell = Callable[[Progress], None]


@dataclass(frozen=True)
class Outcome:
    """How a job ended: its folder, or the error that stopped it, or that another process runs it."""

    job: Job
    folder: Path | None = None
    error: str | None = None
    in_use: bool = False  # by another process, which carries it out


def bench(
    jobs: Sequence[Job],
    runs: Path,
    *,
    executor: str = "serial",
    workers: int = 2,
    checkpoint_seconds: float = 10.0,
    progress: Tell | None = None,
) -> list[Outcome]:
    """Run every job that is not finished yet, for example `bench(load_suite("demo").jobs(), Path("runs"))`."""
    chosen = EXECUTORS[executor]
    with _reachable(progress, chosen.shares_memory) as tell:
        work = partial(_attempt, runs=runs, checkpoint_seconds=checkpoint_seconds, progress=tell)
        outcomes = list(chosen.execute(work, jobs, workers))
        # What another process ran at that time may be finished by now, or left unfinished.
        again = [outcome.job for outcome in outcomes if outcome.in_use]
        settled = list(chosen.execute(work, again, workers)) if again else []
    return [outcome for outcome in outcomes if not outcome.in_use] + settled


def _attempt(job: Job, runs: Path, checkpoint_seconds: float, progress: Tell | None) -> Outcome:
    try:
        return Outcome(job, run(job, runs, checkpoint_seconds=checkpoint_seconds, progress=progress))
    except InUseError:
        return Outcome(job, in_use=True)
    except Exception as error:  # whatever it is, it is the outcome of this job and not the end of the others
        return Outcome(job, error=f"{type(error).__name__}: {error}")


@contextmanager
def _reachable(tell: Tell | None, shares_memory: bool) -> Iterator[Tell | None]:
    """Yield a function that workers can call wherever they run, and that calls `tell` here."""
    if tell is None or shares_memory:
        yield tell
        return
    with multiprocessing.get_context("spawn").Manager() as manager:
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
