"""Run a service under uvicorn until it is told to stop."""

from __future__ import annotations

import signal
import socket
import sys
from collections.abc import Callable
from types import FrameType
from typing import TYPE_CHECKING, Any

from holdfast.serve.app import create_app
from holdfast.serve.gate import LOOPBACK, check_address
from holdfast.serve.limits import Limits
from holdfast.serve.memory import keep_freed_memory
from holdfast.serve.metrics import needs_serve
from holdfast.serve.service import Service

if TYPE_CHECKING:
    import uvicorn

__all__ = ["run", "server_of"]

GRACE_SECONDS = 30
SWITCH_SECONDS = 0.0005  # between the thread that adapts and the one that answers


def run(
    service: Service,
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    token: str | None = None,
    announce: Callable[[str], None] = lambda _: None,
) -> None:
    """Serve at an address until SIGINT or SIGTERM; then answer what is under way and bring all states to the disk."""
    check_address(host, token)
    server = server_of(create_app(service, token=token, hosts=LOOPBACK if host in LOOPBACK else None), service.limits)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((host, port))
        except OSError as error:
            raise OSError(f"cannot listen at {host}:{port} ({error.strerror}); choose another --port") from error
        address = f"[{host}]" if ":" in host else host
        announce(f"http://{address}:{listening.getsockname()[1]}/")
        keep_freed_memory()
        for stopping in (signal.SIGINT, signal.SIGTERM):  # uvicorn raises them again after it has stopped
            signal.signal(stopping, lambda *_: None)
        leave = server.handle_exit

        def leaving(number: int, frame: FrameType | None) -> None:
            service.worker.hurry()  # requests under way wait for their batch, and the server for them
            leave(number, frame)

        server.handle_exit = leaving  # type: ignore[method-assign, assignment]
        server.run(sockets=[listening])


def server_of(app: Any, limits: Limits) -> uvicorn.Server:
    """Return the server of an application, with limits on connections, idle time and heads; it is not started."""
    try:
        import uvicorn

        from holdfast.serve.connections import ACCEPTED_AT_ONCE, files_left, limited_connection
    except ImportError as error:
        raise needs_serve(error) from error
    sys.setswitchinterval(SWITCH_SECONDS)
    return uvicorn.Server(
        uvicorn.Config(
            app,
            log_level="warning",
            access_log=False,
            server_header=False,
            ws="none",
            http=limited_connection(min(limits.connections, files_left()), limits.head_seconds),
            backlog=ACCEPTED_AT_ONCE,
            timeout_keep_alive=5,
            timeout_graceful_shutdown=GRACE_SECONDS,
            h11_max_incomplete_event_size=16 * 1024,
        )
    )
