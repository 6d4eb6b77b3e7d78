"""A step as a transaction: the state before it is kept, and put back when the step fails."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from torch import nn

from holdfast.state import Copies, Savepoint

__all__ = ["Transactions"]


class Transactions:
    """Runs the steps of one model one after the other, and puts its state back when a step raises.

    A step may be held between its two halves (`hold`); whoever uses the model next completes it first. Copies and
    pickles start anew: neither the lock nor an open step belongs to another object. A process that is forked in the
    middle of a step finds the state of before that step.
    """

    def __init__(self) -> None:
        self._lock, self._process = threading.RLock(), os.getpid()
        self._copies = Copies()
        self._open: list[Savepoint] = []
        self._held: tuple[Callable[[], None], Sequence[Savepoint]] | None = None

    def __reduce__(self) -> tuple[type[Transactions], tuple[()]]:
        return Transactions, ()

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Let no other thread read or change the model while the block runs; a held step is completed first."""
        if self._process != os.getpid():
            self._lock, self._process = threading.RLock(), os.getpid()
            for savepoint in [*(self._held[1] if self._held else ()), *self._open]:
                savepoint.restore()
            self._open, self._held = [], None
        with self._lock:
            self._complete()
            yield

    def _complete(self) -> None:
        held, self._held = self._held, None
        if held is not None:
            held[0]()

    @contextmanager
    def begin(self, *groups: Sequence[nn.Module]) -> Iterator[list[Savepoint]]:
        """Yield one savepoint for each group of modules, and restore all of them when the block raises anything."""
        with self.exclusive():
            # A network may call the model it is part of: such inner steps have copies of their own.
            savepoints = [Savepoint(modules, None if self._open else self._copies) for modules in groups]
            with self._undoing(savepoints):
                yield savepoints
            if self._held is None or self._held[1] is not savepoints:
                self._release(savepoints)

    def hold(self, savepoints: Sequence[Savepoint], complete: Callable[[], None]) -> None:
        """Leave the step of these savepoints open; `complete` is run once, before the model is used again."""

        def run() -> None:
            with self._undoing(savepoints):
                complete()
            self._release(savepoints)

        self._held = (run, savepoints)

    @contextmanager
    def _undoing(self, savepoints: Sequence[Savepoint]) -> Iterator[None]:
        outer, self._open = self._open, [*savepoints, *self._open]
        try:
            yield
        except BaseException:
            for savepoint in savepoints:
                savepoint.restore()
            self._open = outer
            self._release(savepoints)
            raise
        finally:
            self._open = outer

    def _release(self, savepoints: Sequence[Savepoint]) -> None:
        for savepoint in () if self._open else savepoints:
            savepoint.release()

    def forget(self) -> None:
        """Drop the copies of tensors, which have moved to another device or type."""
        self._copies = Copies()
