"""Requests as plain records: sent to a replica, and served there by the application."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fastapi import Response

ENCODER = json.JSONEncoder(allow_nan=False)
DROPPED = (b"content-length", b"transfer-encoding", b"connection", b"authorization")  # for the front alone


@dataclass(frozen=True)
class Call:
    """A request whose body has arrived; `path` names the tenant."""

    method: str
    path: str
    query: bytes = b""
    headers: tuple[tuple[bytes, bytes], ...] = ()
    body: bytes = b""

    @classmethod
    def of(cls, scope: Any, path: str, body: bytes = b"") -> Call:
        """Return the call of an ASGI request."""
        headers = tuple((name, value) for name, value in scope["headers"] if name not in DROPPED)
        return cls(scope["method"], path, scope["query_string"], headers, body)


@dataclass(frozen=True)
class Reply:
    """The whole answer to a call."""

    status: int
    headers: tuple[tuple[bytes, bytes], ...]
    body: bytes


async def answered(app: Any, call: Call) -> Reply:
    """Return the reply of an ASGI application in this process."""
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": call.method,
        "scheme": "http",
        "path": call.path,
        "raw_path": call.path.encode(),
        "root_path": "",
        "query_string": call.query,
        "headers": [*call.headers, (b"content-length", str(len(call.body)).encode())],
        "client": None,
        "server": None,
    }
    arriving = [{"type": "http.request", "body": call.body, "more_body": False}]
    sent: list[Any] = []

    async def receive() -> Any:
        return arriving.pop() if arriving else {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        sent.append(message)

    await app(scope, receive, send)
    start, *pieces = sent
    return Reply(start["status"], tuple(start["headers"]), b"".join(piece.get("body", b"") for piece in pieces))


def json_reply(content: Any, status: int = 200) -> Response:
    """Return content as a response in JSON, which has no NaN."""
    from fastapi import Response

    return Response(ENCODER.encode(content), status, media_type="application/json")
