"""Let several processes calibrate one walk together: each pair has a lock, and no process waits while a pair is free.

They are either started by hand, on any machines that share the cache, or by an executor, one job for each pair.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeAlias

from holdfast.calibration.meter import CalibrationProgress, Meter
from holdfast.calibration.pairs import Pair
from holdfast.machine.devices import threads
from holdfast.machine.folders import InUseError, held, made
from holdfast.streams.walks.path import GridPoint
from holdfast.streams.walks.transitions import Transition

Solve: TypeAlias = Callable[[Pair, Sequence[GridPoint]], Transition]
Execute: TypeAlias = Callable[[Callable[[Pair], Any], Sequence[Pair]], Iterable[Any]]  # the results of jobs, anywhere


@contextmanager
def locked(meter: Meter, name: str, *, wait: bool = False) -> Iterator[None]:
    """Lock one part of the measurements, and take over what other processes have measured so far."""
    with held(made(meter.store.folder / name), wait=wait):
        meter.forget_reading()
        yield


def shared(meter: Meter, solve: Solve, walk: Sequence[Pair]) -> Solve:
    """Return `solve` for any number of processes that calibrate the same walk.

    A pair that another process is working on is left to it, and a later one is measured meanwhile. Its path depends on
    the one before it and is computed again in its turn, mostly from these measurements.
    """

    def solved(pair: Pair, before: Sequence[GridPoint]) -> Transition:
        for other in walk[walk.index(pair) + 1 :] if pair in walk else ():
            try:
                with locked(meter, "+".join(pair)):
                    return solve(pair, before)
            except InUseError:
                _measure(meter, solve, other)
        with locked(meter, "+".join(pair), wait=True):
            return solve(pair, before)

    return solved


def measure_as_jobs(meter: Meter, solve: Callable[..., Transition], walk: Sequence[Pair], execute: Execute) -> None:
    """Measure the pairs as jobs, each under its own lock; `solve` then finds the measurements in the cache.

    A pair whose job fails, or which another process is working on, is measured in its turn.
    """
    sent = pickle.dumps((meter, solve))  # not by torch, which would keep a file open for every tensor it sends
    for result in execute(partial(_measure_alone, sent=sent), list(dict.fromkeys(walk))):
        if isinstance(result, CalibrationProgress):
            meter.add(result)


def _measure_alone(pair: Pair, sent: bytes) -> CalibrationProgress:
    """Measure a pair in a process of its own, on one thread, and return the measurements made here."""
    meter, solve = pickle.loads(sent)  # our own objects, written by `measure_as_jobs` in the parent of this process
    before = meter.done, meter.saved
    with threads(1):
        _measure(meter, partial(solve, meter), pair)
    return CalibrationProgress("+".join(pair), meter.done - before[0], meter.saved - before[1], left=0)


def _measure(meter: Meter, solve: Solve, pair: Pair) -> None:
    try:
        with locked(meter, "+".join(pair)):
            solve(pair, ())
    except InUseError:
        return
