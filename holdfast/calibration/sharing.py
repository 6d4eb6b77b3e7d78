"""Let several processes calibrate one walk together: each pair has a lock, and nobody waits while a pair is free."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeAlias

from holdfast.calibration.judge import Judge
from holdfast.calibration.pairs import Pair
from holdfast.folders import InUseError, held, made
from holdfast.streams.walks.path import GridPoint
from holdfast.streams.walks.transitions import Transition

__all__ = ["locked", "shared"]

Solve: TypeAlias = Callable[[Pair, Sequence[GridPoint]], Transition]


@contextmanager
def locked(judge: Judge, name: str, *, wait: bool = False) -> Iterator[None]:
    """Lock one part of the measurements, and take over what other processes have measured so far."""
    with held(made(judge.store.folder / name), wait=wait):
        judge.forget_reading()
        yield


def shared(judge: Judge, solve: Solve, walk: Sequence[Pair]) -> Solve:
    """Return `solve` for any number of processes that calibrate the same walk.

    A pair that another process is working on is left to it, and a later one is measured meanwhile. Its path depends on
    the one before it and is found again in its turn, mostly from these measurements.
    """

    def solved(pair: Pair, before: Sequence[GridPoint]) -> Transition:
        for other in walk[walk.index(pair) + 1 :] if pair in walk else ():
            try:
                with locked(judge, "+".join(pair)):
                    return solve(pair, before)
            except InUseError:
                _measure(judge, solve, other)
        with locked(judge, "+".join(pair), wait=True):
            return solve(pair, before)

    return solved


def _measure(judge: Judge, solve: Solve, pair: Pair) -> None:
    try:
        with locked(judge, "+".join(pair)):
            solve(pair, ())
    except InUseError:
        return
