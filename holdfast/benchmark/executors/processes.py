"""The executor `processes`: several items at a time on one machine."""

from __future__ import annotations

import signal
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any

from holdfast.benchmark.executors.base import EXECUTORS, Executor, Lost
from holdfast.benchmark.stopping import GRACE, Stopped, stop_if_asked, stoppable
from holdfast.children import CHILDREN

__all__ = ["processes"]

TRIES = 3  # of an item whose worker dies; runs resume, so that little is repeated
POLL = 0.2  # seconds after which a stop is noticed


@dataclass
class _Worker:
    process: BaseProcess
    connection: Connection
    item: Any
    tries: int


def processes(work: Callable[[Any], Any], items: Sequence[Any], workers: int = 2) -> Iterator[Any]:
    """Run several items at a time in spawned processes; results are yielded as they are ready.

    An item whose worker dies is tried again by a new one; after that its result is `Lost`.
    """
    waiting = deque((item, 1) for item in items)
    crew: list[_Worker] = []
    idle: list[tuple[BaseProcess, Connection]] = []
    try:
        while waiting or crew:
            stop_if_asked()
            while waiting and len(crew) < workers:
                crew.append(_begin(*(idle.pop() if idle else _hire(work)), *waiting.popleft()))
            ready = wait([worker.connection for worker in crew], POLL)
            for worker in [worker for worker in crew if worker.connection in ready]:
                crew.remove(worker)
                try:
                    result = worker.connection.recv()
                except (EOFError, OSError):
                    worker.process.join()
                    if worker.tries < TRIES:
                        waiting.append((worker.item, worker.tries + 1))
                    else:
                        yield Lost(worker.item, f"its worker died {TRIES} times, the last time {_end_of(worker)}")
                    continue
                idle.append((worker.process, worker.connection))
                if isinstance(result, Stopped):
                    raise result
                yield result
    finally:
        for process, _ in idle:
            process.kill()  # it has sent all it had; to end by itself takes an interpreter with torch a second
        _dismiss([*((worker.process, worker.connection) for worker in crew), *idle])


def _hire(work: Callable[[Any], Any]) -> tuple[BaseProcess, Connection]:
    ours, theirs = CHILDREN.Pipe()
    process = CHILDREN.Process(target=_serve, args=(work, theirs))
    process.start()
    theirs.close()  # so that a dead worker is the end of the connection
    return process, ours


def _begin(process: BaseProcess, connection: Connection, item: Any, tries: int) -> _Worker:
    worker = _Worker(process, connection, item, tries)
    with suppress(OSError):  # it died while it was idle; reading says so
        connection.send(item)
    return worker


def _serve(work: Callable[[Any], Any], connection: Connection) -> None:
    """Work on items until the parent closes the connection, asks to stop, or is gone."""
    with stoppable(signal.SIGTERM):
        while True:
            try:
                item = connection.recv()
            except (EOFError, OSError):
                return
            try:
                result = work(item)
            except Stopped as stopped:
                result = stopped
            try:
                connection.send(result)
            except OSError:  # the parent stops and does not listen any more
                return


def _dismiss(crew: Sequence[tuple[BaseProcess, Connection]]) -> None:
    """End all workers: busy ones save their state first, for as long as they may."""
    for process, connection in crew:
        connection.close()
        process.terminate()
    until = time.monotonic() + GRACE
    for process, _ in crew:
        process.join(max(0.0, until - time.monotonic()))
        if process.is_alive():
            process.kill()
            process.join()


def _end_of(worker: _Worker) -> str:
    code = worker.process.exitcode
    return f"by {signal.Signals(-code).name}" if code is not None and code < 0 else f"with exit code {code}"


EXECUTORS.register("processes")(
    Executor(processes, shares_memory=False, summary="Several jobs at a time, each in a process of its own.")
)
