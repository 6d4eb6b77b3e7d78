"""Run all jobs of a suite through an executor; a job that fails does not stop the others."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from holdfast.benchmark.attempt import Tell
from holdfast.benchmark.checks import check_cards
from holdfast.benchmark.executors import EXECUTORS, Executor, Lost
from holdfast.benchmark.finished import forget_inputs
from holdfast.benchmark.groups import groups_of
from holdfast.benchmark.job import Job
from holdfast.benchmark.prefetch import usable_cores
from holdfast.benchmark.running import Pace, run_together
from holdfast.machine.folders import InUseError
from holdfast.machine.stopping import Stopped, stop_if_asked, stoppable

Group = tuple[Job, ...]


@dataclass(frozen=True)
class Outcome:
    """How a job ended: its folder, or the error that stopped it, or that another process runs it."""

    job: Job  # the job that ended
    folder: Path | None = None  # of its run; None: it has none
    error: str | None = None  # that stopped it, in one line; None: there was none
    in_use: bool = False  # by another process, which carries it out
    rendering_share: float | None = None  # of the time; None: it was not run here


def bench(
    jobs: Sequence[Job],
    runs: Path,
    *,
    executor: str = "serial",
    workers: int = 2,
    together: int = 10,
    render_workers: int | None = None,
    checkpoint_seconds: float = 10.0,
    progress: Tell | None = None,
) -> list[Outcome]:
    """Run every job that is not finished yet, for example `bench(load_suite("demo").jobs(), Path("runs"))`.

    Recipes of one stream, seed and model run in lock-step and share each rendered batch. On Ctrl-C or SIGTERM all
    states are saved, and `Stopped` says how to resume.

    Args:
        jobs: of a suite: `load_suite("demo").jobs()`.
        runs: folder of the runs.
        executor: "serial", "processes", "ray" or "slurm" (`EXECUTORS`).
        workers: number of processes or machines.
        together: number of recipes that share a rendering.
        render_workers: processes for each group that render ahead; None chooses by what it measures.
        checkpoint_seconds: time between saved states.
        progress: a function that is called with each `Progress`.
    """
    chosen = EXECUTORS[executor]
    forget_inputs()
    check_cards(job for job in jobs if not job.is_finished(runs))
    groups = groups_of(jobs, at_least=1 if executor == "serial" else workers, at_most=together)
    # Tasks of a cluster have one core each; on this machine workers share the cores.
    sharing = {"serial": 1, "processes": max(1, min(workers, len(groups)))}.get(executor, usable_cores())
    cores = max(1, usable_cores() // sharing)
    pace = Pace(checkpoint_seconds=checkpoint_seconds, render_workers=render_workers, cores=cores)
    outcomes: dict[str, Outcome] = {}
    try:
        with stoppable(signal.SIGINT, signal.SIGTERM), _reached(chosen, progress) as tell:
            work = partial(_attempt, runs=runs, pace=pace, progress=tell)
            outcomes |= {outcome.job.name: outcome for outcome in _carried_out(chosen, work, groups, workers)}
            # What another process ran at that time may be finished by now, or left unfinished.
            again = [(outcome.job,) for outcome in outcomes.values() if outcome.in_use]
            if again:
                outcomes |= {outcome.job.name: outcome for outcome in _carried_out(chosen, work, again, workers)}
    except KeyboardInterrupt as error:
        finished = sum(job.is_finished(runs) for job in jobs)
        raise Stopped(
            f"stopped: {finished} of {len(jobs)} runs are finished and the others are saved; run the same command "
            "again to resume them"
        ) from error
    return [outcomes[job.name] for job in jobs if job.name in outcomes]


def _carried_out(
    executor: Executor, work: Callable[[Group], list[Outcome]], groups: Sequence[Group], workers: int
) -> Iterator[Outcome]:
    for result in executor.with_workers(workers)(work, groups):
        if isinstance(result, Lost):
            yield from (Outcome(job, error=result.reason) for job in result.item)
        else:
            yield from result


def _attempt(group: Group, runs: Path, pace: Pace, progress: Tell | None) -> list[Outcome]:
    stop_if_asked()
    return [
        Outcome(
            ended.job,
            None if ended.failure else ended.folder,
            None
            if ended.failure is None or isinstance(ended.failure, InUseError)
            else f"{type(ended.failure).__name__}: {ended.failure}",
            isinstance(ended.failure, InUseError),
            ended.rendering_share,
        )
        for ended in run_together(group, runs, pace, progress)
    ]


def _reached(executor: Executor, tell: Tell | None) -> AbstractContextManager[Tell | None]:
    """Return a context with a function that workers can call wherever they run, and that calls `tell` here."""
    return nullcontext(tell) if tell is None or executor.shares_memory else executor.reach(tell)
