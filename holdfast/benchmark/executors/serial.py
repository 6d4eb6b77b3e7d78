"""The executor `serial`: one item after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from holdfast.benchmark.executors.base import EXECUTORS, Executor

Item = TypeVar("Item")
Result = TypeVar("Result")


def serial(work: Callable[[Item], Result], items: Sequence[Item], _workers: int = 1) -> Iterator[Result]:
    """Run one item after the other in this process.

    >>> list(serial(abs, [-1, 2]))
    [1, 2]
    """
    return map(work, items)


EXECUTORS.register("serial")(Executor(serial, shares_memory=True, summary="One job after the other in this process."))
