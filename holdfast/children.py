"""Child processes that end with their parent, however and whenever it ends."""

from __future__ import annotations

import os
from collections.abc import Callable
from multiprocessing.context import SpawnContext, SpawnProcess
from typing import Any

__all__ = ["CHILDREN"]

# Run by a child before it imports anything of the caller's, which may take long; the child may not know holdfast yet.
BE_A_CHILD = """
import os, signal, threading, time

def watch():
    while os.getppid() == {parent}:
        time.sleep(0.2)
    os._exit(1)  # what is half done is done again from the last checkpoint

if not any(thread.name == "holdfast-parent" for thread in threading.enumerate()):
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is left to the parent
    threading.Thread(target=watch, name="holdfast-parent", daemon=True).start()
"""


class _Name(str):
    """The name of a child, which comes first of all it receives; unpickling it makes the child watch its parent."""

    __slots__ = ()

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[str]]:
        return eval, (f"exec({BE_A_CHILD.format(parent=os.getpid())!r}, {{}}) or {str(self)!r}",)


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
