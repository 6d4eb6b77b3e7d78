"""The gate before the application: token, host and origin; counts requests, and keeps errors inside."""

from __future__ import annotations

import hmac
import json
import logging
import os
import re
from collections.abc import Awaitable, Callable, Collection, MutableMapping
from pathlib import Path
from typing import Any, TypeAlias

from holdfast.serve.limits import RefusedError
from holdfast.serve.metrics import Metrics

LOG = logging.getLogger(__name__)
LOOPBACK = ("127.0.0.1", "localhost", "::1")
OPEN = ("/", "/healthz", "/readyz", "/v2/health/live", "/v2/health/ready")  # without a token: they hold no data
TOKEN_VARIABLE = "HOLDFAST_TOKEN"
SHORTEST_TOKEN = 16
ONCE = ("host", "origin", "authorization", "x-tenant", "content-type", "content-length")  # headers that decide
HOST = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([A-Za-z0-9._-]+))(?::[0-9]{1,5})?")  # nothing before the name, no path
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
App: TypeAlias = Callable[[Message, Receive, Send], Awaitable[None]]

HEADERS = [
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-store"),
    (
        b"content-security-policy",
        b"default-src 'none'; connect-src 'self'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
        b"img-src 'self' data:; base-uri 'none'; form-action 'none'",
    ),
]


def read_token(path: Path | None) -> str | None:
    """Return the token in a file, or in the environment variable HOLDFAST_TOKEN; None if there is neither."""
    token = path.read_text().strip() if path is not None else os.environ.get(TOKEN_VARIABLE, "").strip()
    if path is None and not token:
        return None
    if len(token) < SHORTEST_TOKEN or not token.isascii() or not token.isprintable():
        raise ValueError(
            f"the token must have at least {SHORTEST_TOKEN} printable characters; make one with: "
            "python -c 'import secrets; print(secrets.token_urlsafe(32))'"
        )
    return token


def check_address(host: str, token: str | None) -> None:
    """Raise when others could reach the service and no token is set.

    >>> check_address("127.0.0.1", None)
    >>> check_address("0.0.0.0", None)
    Traceback (most recent call last):
    ValueError: at 0.0.0.0 other machines can reach the service; pass --token-file or set HOLDFAST_TOKEN
    """
    if host not in LOOPBACK and token is None:
        raise ValueError(f"at {host} other machines can reach the service; pass --token-file or set {TOKEN_VARIABLE}")


class Gate:
    """Middleware that lets a request through, or refuses it before anything of it is read."""

    def __init__(self, app: App, *, metrics: Metrics, token: str | None, hosts: Collection[str] | None) -> None:
        self.app, self.metrics, self.token, self.hosts = app, metrics, token, hosts

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        asked = {**scope, "method": "GET"} if scope["method"] == "HEAD" else scope  # the server sends no body
        started: list[int] = []

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                started.append(message["status"])
                message = {**message, "headers": [*message["headers"], *HEADERS]}
            await send(message)

        try:
            self._check(asked)
            await self.app(asked, receive, sending)
        except RefusedError as error:
            if not started:
                await _refuse(sending, error.status, str(error))
        except Exception:
            LOG.exception("a request failed")
            if not started:
                await _refuse(sending, 500, "internal error; the log of the service says more")
        route = asked.get("route")
        path = getattr(route, "path", "other")
        self.metrics.requests.labels(path, str(started[0]) if started else "none").inc()

    def _check(self, scope: Message) -> None:
        pairs = [(name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in scope["headers"]]
        headers = dict(pairs)
        names = [name for name, _ in pairs]
        if twice := next((name for name in ONCE if names.count(name) > 1), None):
            raise RefusedError(400, f"the header {twice} is given twice; send it once")
        host = headers.get("host", "")
        if self.hosts is not None and _host_name(host) not in self.hosts:
            raise RefusedError(421, "the service does not answer to this host name")
        origin = headers.get("origin")
        if origin is not None and origin.partition("://")[2] != host:  # another site in the user's browser
            raise RefusedError(403, "requests from other sites are refused")
        if self.token is None or scope["path"] in OPEN:
            return
        kind, _, given = headers.get("authorization", "").partition(" ")
        if kind.lower() != "bearer" or not hmac.compare_digest(given.strip().encode(), self.token.encode()):
            raise RefusedError(401, "send the token of the service: Authorization: Bearer …")


def _host_name(header: str) -> str | None:
    """Return the name in a Host header without its port, or None if there is anything else in it.

    >>> _host_name("127.0.0.1:8000"), _host_name("[::1]"), _host_name("evil@127.0.0.1")
    ('127.0.0.1', '::1', None)
    """
    name = HOST.fullmatch(header)
    return None if name is None else (name[1] or name[2]).lower()


async def _refuse(send: Send, status: int, message: str) -> None:
    body = json.dumps({"error": message}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    headers += [(b"www-authenticate", b"Bearer")] if status == 401 else []
    headers += [(b"retry-after", b"1")] if status in (429, 503) else []
    headers += [(b"connection", b"close")] if status in (408, 413) else []
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
