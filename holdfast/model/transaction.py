"""A step as a transaction: the state before it is kept, and put back when the step fails."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

from holdfast.state import Contents, Copies, Savepoint


class Halves(Protocol):
    """A step in two halves, with the savepoints to return to if the second one fails."""

    @property
    def savepoints(self) -> Sequence[Savepoint]:
        """The state before the step."""

    def predict(self, savepoints: Sequence[Savepoint], /) -> None:
        """Carry out the first half."""

    def adapt(self) -> None:
        """Carry out the second half."""


class Transactions:
    """Runs the steps of one model one after the other, and puts its state back when a step raises.

    It keeps the one step whose second half is still to come; the next use of the model finishes it first (`settled`).
    Copies and pickles start anew: neither the lock nor an open step belongs to another object. A process that is forked
    in the middle of a step has the state from before that step.
    """

    def __init__(self) -> None:
        self._lock, self._process = threading.RLock(), os.getpid()
        self._copies: list[Copies] = []  # of each group of modules
        self._open: list[Savepoint] = []
        self._pending: Halves | None = None

    def __reduce__(self) -> tuple[type[Transactions], tuple[()]]:
        return Transactions, ()

    def __enter__(self) -> None:
        if self._process != os.getpid():
            self._lock, self._process = threading.RLock(), os.getpid()
            for savepoint in [*(self._pending.savepoints if self._pending else ()), *self._open]:
                savepoint.restore()
            self._open, self._pending = [], None
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    @contextmanager
    def settled(self) -> Iterator[None]:
        """Finish the pending step, and let no other thread read or change the model while the block runs."""
        with self:
            self.settle()
            yield

    def settle(self, only: Halves | None = None) -> None:
        """Finish the pending step, or only this one; the lock is held."""
        pending = self._pending
        if pending is None or only not in (None, pending):
            return
        self._pending = None
        with self.undoing(pending.savepoints):
            pending.adapt()

    def begin(self, step: Halves, *groups: Contents) -> None:
        """Carry out the first half of a step on groups of modules, and keep it until it is finished."""
        savepoints = self.savepoints(*groups)
        with self.undoing(savepoints, go_on=True):
            step.predict(savepoints)
        self._pending = step

    def savepoints(self, *groups: Contents) -> list[Savepoint]:
        """Return a savepoint for each group of modules."""
        # A network may call the model it is part of: such inner steps have copies of their own.
        copies = [] if self._open else self._copies
        while len(copies) < len(groups):
            copies.append(Copies())
        return [Savepoint(inside, own) for inside, own in zip(groups, copies, strict=False)]

    @contextmanager
    def undoing(self, savepoints: Sequence[Savepoint], *, go_on: bool = False) -> Iterator[None]:
        """Return to savepoints if the block raises anything; else, unless the step goes on, they have served."""
        outer, self._open = self._open, [*savepoints, *self._open]
        try:
            yield
        except BaseException:
            for savepoint in savepoints:
                savepoint.restore()
            go_on = False
            raise
        finally:
            self._open = outer
            for savepoint in () if go_on else savepoints:
                savepoint.release()

    def forget(self) -> None:
        """Drop the copies of tensors, which have moved to another device or type."""
        self._copies = []
