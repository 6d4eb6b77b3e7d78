"""Child processes that end with their parent, however it ends."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from multiprocessing.connection import wait

__all__ = ["be_a_child"]


def be_a_child() -> None:
    """Leave Ctrl-C to the parent, and end at once when the parent is gone, even if it was killed.

    Call it first in a process that `multiprocessing` has started; elsewhere it does nothing.
    """
    parent = multiprocessing.parent_process()
    if parent is None:
        return
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def watch() -> None:
        wait([parent.sentinel])
        os._exit(1)  # whatever is half done is done again from the last checkpoint

    threading.Thread(target=watch, name="holdfast-parent", daemon=True).start()
