"""Connections of the server: their number is limited, and those that send nothing make room for others."""

from __future__ import annotations

import asyncio
import resource
import socket
from collections.abc import Callable
from types import FrameType
from typing import Any, ClassVar

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

AT_ONCE = 16  # connections that the event loop accepts in one turn
TURNS = 4  # until the first of those that are refused has given its file descriptor back
LISTENING = 1024  # connections that wait in the system until they are accepted
RESERVED = 128  # file descriptors for states, the log and libraries


def files_left() -> int:
    """Return how many connections can be open while states and the log can still be opened.

    >>> files_left() > 0
    True
    """
    allowed, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    left = 2**31 if allowed == resource.RLIM_INFINITY else allowed - RESERVED - TURNS * AT_ONCE
    if left < 1:
        raise OSError(f"a service needs over {RESERVED + TURNS * AT_ONCE} open files, and {allowed} are allowed; "
                      "raise the limit with ulimit -n")  # fmt: skip
    return left


class Connection(H11Protocol):
    """One connection; without a request under way it is idle.

    One more than `most` closes the one whose client keeps it waiting for the longest: an idle one, those that have
    never sent a request first, then one whose body does not end or whose client does not read. If there is none, the
    new one is closed. `overdue` runs while the head of a request is awaited.
    """

    most: ClassVar[int]
    head_seconds: ClassVar[float]

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.since = self.loop.time()  # of the last head, or the beginning
        self.overdue: asyncio.TimerHandle | None = None

    @property
    def idle(self) -> bool:
        """Whether no request is under way."""
        return self.cycle is None or self.cycle.response_complete

    @property
    def waiting(self) -> bool:
        """Whether the client has to send or read before anything can happen."""
        return self.idle or self.cycle.more_body or self.flow.write_paused

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Await a head, and make room for it."""
        super().connection_made(transport)
        # Else the body of a reply may wait until the client has acknowledged its head.
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._await_head()
        if len(self.connections) > self.most:
            closing = [one for one in self.connections if isinstance(one, Connection) and one.waiting]
            slowest = min(closing, key=lambda one: (one is self, not one.idle, one.cycle is not None, one.since))
            self.connections.discard(slowest)
            slowest.transport.abort()

    def data_received(self, data: bytes) -> None:
        """Take bytes of a head or body."""
        before = self.cycle
        super().data_received(data)
        if self.cycle is not before:
            self.since = self.loop.time()
        if not self.idle:
            self._head_arrived()
        elif self.overdue is None:
            self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Await nothing any more."""
        self._head_arrived()
        super().connection_lost(exc)

    def _await_head(self) -> None:
        self.overdue = self.loop.call_later(self.head_seconds, self.transport.abort)

    def _head_arrived(self) -> None:
        if self.overdue is not None:
            self.overdue.cancel()
            self.overdue = None


class Server(uvicorn.Server):
    """A server that calls `leaving` when a signal asks it to stop."""

    def __init__(self, config: uvicorn.Config, leaving: Callable[[], None]) -> None:
        super().__init__(config)
        self._leaving = leaving

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen, and let many connections wait although few are accepted at once."""
        await super().startup(sockets)
        for one in sockets or []:
            one.listen(LISTENING)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Take the signal."""
        self._leaving()
        super().handle_exit(sig, frame)


def limited_connection(most: int, head_seconds: float) -> type[Connection]:
    """Return the protocol of a server with at most `most` connections, whose heads have to arrive in time."""
    return type("LimitedConnection", (Connection,), {"most": most, "head_seconds": head_seconds})
