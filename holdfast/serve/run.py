"""Run a service under uvicorn until a signal stops it."""

from __future__ import annotations

import signal
import socket
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from holdfast.machine.memory import keep_freed_memory
from holdfast.serve.app import create_app
from holdfast.serve.gate import LOOPBACK, check_address
from holdfast.serve.limits import Limits
from holdfast.serve.metrics import needs_serve
from holdfast.serve.service import Service

if TYPE_CHECKING:
    import uvicorn

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
    app = create_app(service, token=token, hosts=LOOPBACK if host in LOOPBACK else None)
    server = server_of(app, service.limits, leaving=service.worker.hurry)  # requests under way wait for their batch
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
        server.run(sockets=[listening])


def server_of(app: Any, limits: Limits, *, leaving: Callable[[], None] = lambda: None) -> uvicorn.Server:
    """Return the server of an application, with limits on connections, idle time and heads; it is not started.

    `leaving` is called when a signal asks it to stop, before it waits for requests under way.
    """
    try:
        import uvicorn

        from holdfast.serve.connections import AT_ONCE, Server, files_left, limited_connection
    except ImportError as error:
        raise needs_serve(error) from error
    sys.setswitchinterval(SWITCH_SECONDS)
    return Server(
        uvicorn.Config(
            app,
            log_level="warning",
            access_log=False,
            server_header=False,
            ws="none",
            http=limited_connection(min(limits.connections, files_left()), limits.head_seconds),
            backlog=AT_ONCE,
            timeout_keep_alive=5,
            timeout_graceful_shutdown=GRACE_SECONDS,
            h11_max_incomplete_event_size=16 * 1024,
        ),
        leaving,
    )
