"""Child processes that end with their parent, however and whenever it ends."""

from __future__ import annotations

import operator
import os
import runpy
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.context import SpawnContext, SpawnProcess
from typing import Any

AS_CHILD = "holdfast child"  # what this file is called where a child runs it, before it imports anything else


class _Name(str):
    """The name of a child, which comes first of all it receives; unpickling it makes the child watch its parent."""

    __slots__ = ()

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return operator.getitem, (_Start(str(self), os.getpid()), "name")


@dataclass(frozen=True)
class _Start:
    """What a child runs as soon as it is there: this file, whose names it gets in return."""

    name: str
    parent: int

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return runpy.run_path, (__file__, vars(self), AS_CHILD)


class _Child(SpawnProcess):
    def start(self) -> None:
        self.name = _Name(self.name)
        super().start()


class _Children(SpawnContext):
    Process = _Child


CHILDREN = _Children()
"""Starts processes that leave Ctrl-C to their parent and end at once when it is gone, even if it was killed.

Spawned, not forked: torch's thread pools do not survive a fork.
"""


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(0.2)
    os._exit(1)  # what is half done is done again from the last checkpoint


def _be_a_child(parent: int) -> None:
    if not any(thread.name == "holdfast-parent" for thread in threading.enumerate()):
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is left to the parent
        threading.Thread(target=_watch, args=(parent,), name="holdfast-parent", daemon=True).start()


if __name__ == AS_CHILD:
    _be_a_child(globals()["parent"])
