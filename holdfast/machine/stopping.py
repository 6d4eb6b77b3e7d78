"""Stop on Ctrl-C or SIGTERM: after the batch at hand, with the state saved."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

GRACE = 5.0  # seconds for the batch at hand; then it is given up and repeated when the run resumes

_asked = threading.Event()  # signals concern the whole process


class Stopped(KeyboardInterrupt):
    """The user or the system asked to stop; what is done is kept, and the same command resumes it."""


def was_asked_to_stop() -> bool:
    """Return whether a signal has arrived within `stoppable`."""
    return _asked.is_set()


def stop_if_asked() -> None:
    """Raise `Stopped` if a signal has arrived."""
    if _asked.is_set():
        raise Stopped


@contextmanager
def stoppable(*signals: signal.Signals) -> Iterator[None]:
    """Within the block these signals ask to stop; the second one, or the end of `GRACE`, raises `Stopped` at once.

    Only the main thread of a process receives signals: in another one, and within another such block, nothing changes.
    """
    if threading.current_thread() is not threading.main_thread() or _asked.is_set():
        yield
        return
    before = {number: signal.getsignal(number) for number in signals}
    if _ask in before.values():
        yield
        return
    for number in signals:
        signal.signal(number, _ask)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        _asked.clear()


def _ask(_number: int, _frame: FrameType | None) -> None:
    if _asked.is_set():
        raise Stopped
    _asked.set()
    hurry = threading.Timer(GRACE, _hurry)
    hurry.daemon = True
    hurry.start()


def _hurry() -> None:
    """Interrupt the main thread if it is still busy, also if it waits for another process."""
    if _asked.is_set():
        number = signal.SIGTERM if signal.getsignal(signal.SIGTERM) is _ask else signal.SIGINT
        signal.pthread_kill(threading.main_thread().ident or 0, number)
