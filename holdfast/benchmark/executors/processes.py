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
from holdfast.machine.children import CHILDREN
from holdfast.machine.stopping import GRACE, Stopped, stop_if_asked, stoppable

TRIES = 3  # of an item whose worker dies; runs resume, so that little is repeated
POLL = 0.2  # seconds after which a stop is noticed


@dataclass
class _Worker:
    process: BaseProcess
    connection: Connection
    item: Any
    tries: int


class _Ready:
    """What a worker sends first: to send it much before would block until it has imported everything."""


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
                item, tries = waiting.popleft()
                crew.append(_begin(_Worker(*idle.pop(), item, tries)) if idle else _Worker(*_hire(), item, tries))
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
                if isinstance(result, _Ready):
                    crew.append(_begin(worker, work))
                    continue
                idle.append((worker.process, worker.connection))
                if isinstance(result, Stopped):
                    raise result
                yield result
    finally:
        for process, _ in idle:
            process.kill()  # it has sent all it had; to end by itself takes an interpreter with torch a second
        _dismiss([*((worker.process, worker.connection) for worker in crew), *idle])


def _hire() -> tuple[BaseProcess, Connection]:
    ours, theirs = CHILDREN.Pipe()
    process = CHILDREN.Process(target=_serve, args=(theirs,))
    process.start()
    theirs.close()  # so that a dead worker is the end of the connection
    return process, ours


def _begin(worker: _Worker, *before: Any) -> _Worker:
    with suppress(OSError):  # it died while it was idle; reading says so
        for each in (*before, worker.item):
            worker.connection.send(each)
    return worker


def _serve(connection: Connection) -> None:
    """Work on items until the parent closes the connection, asks to stop, or is gone."""
    with stoppable(signal.SIGTERM):
        received = _received(connection)
        for work in received:
            for item in received:
                try:
                    result = work(item)
                except Stopped as stopped:
                    result = stopped
                with suppress(OSError):  # the parent stops and does not listen any more
                    connection.send(result)


def _received(connection: Connection) -> Iterator[Any]:
    with suppress(EOFError, OSError):
        connection.send(_Ready())
        while True:
            yield connection.recv()


def _dismiss(crew: Sequence[tuple[BaseProcess, Connection]]) -> None:
    """End all workers: busy ones save their state first, for as long as they may."""
    for process, connection in crew:
        connection.close()
        process.terminate()
    until = time.monotonic() + GRACE
    try:
        for process, _ in crew:
            process.join(max(0.0, until - time.monotonic()))
    finally:  # a second signal, or the end of the grace, interrupts the wait
        for process, _ in crew:
            process.kill()
            process.join()


def _end_of(worker: _Worker) -> str:
    code = worker.process.exitcode
    return f"by {signal.Signals(-code).name}" if code is not None and code < 0 else f"with exit code {code}"


EXECUTORS.register("processes")(
    Executor(processes, shares_memory=False, summary="Several jobs at a time, each in a process of its own.")
)
