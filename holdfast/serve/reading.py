"""Read a request: whose it is, and its body, of limited size and in limited time."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

from holdfast.serve.limits import Limits, RefusedError

DEFAULT_TENANT = "default"
OBJECT_BYTES = 64 * 1024  # it is read on the event loop


def tenant_of(*named: str | None) -> str:
    """Return the name that was given, or that of the default tenant; two different names are refused.

    >>> tenant_of(None, "north"), tenant_of("north", "north"), tenant_of(None)
    ('north', 'north', 'default')
    >>> tenant_of("", "north")
    Traceback (most recent call last):
    holdfast.serve.limits.RefusedError: the request names two tenants, in its address, X-Tenant or body; name one
    """
    given = {one for one in named if one is not None}
    if len(given) > 1:
        raise RefusedError(422, "the request names two tenants, in its address, X-Tenant or body; name one")
    return given.pop() if given else DEFAULT_TENANT


class BodyRoom:
    """Room for the bodies of requests under way, of all clients together; used on the event loop only."""

    def __init__(self, limits: Limits) -> None:
        self._limits, self._left = limits, max(limits.bodies_bytes, limits.body_bytes)

    @asynccontextmanager
    async def body(self, request: Any) -> AsyncIterator[bytes]:
        """Read a body, and hold its room inside the block."""
        taken = 0

        def take(size: int) -> None:
            nonlocal taken
            if size > self._left:
                raise RefusedError(503, "the bodies under way are too large together; try again later")
            self._left, taken = self._left - size, taken + size

        try:
            yield await body_of(request, self._limits, take=take)
        finally:
            self._left += taken


async def body_of(
    request: Any, limits: Limits, most: int | None = None, *, take: Callable[[int], None] = lambda _: None
) -> bytes:
    """Read a body of limited size in limited time; `take` is called with the size of each piece, and may refuse it."""
    largest = limits.body_bytes if most is None else most
    too_large = RefusedError(413, f"the body has over {largest} bytes")
    from starlette.requests import ClientDisconnect

    if request.headers.get("content-encoding", "identity").lower() != "identity":
        raise RefusedError(415, "the body is compressed; send it as it is, without Content-Encoding")
    announced = request.headers.get("content-length", "0")
    if not announced.isdecimal() or int(announced) > largest:
        raise too_large
    content = bytearray()

    async def read() -> None:
        async for piece in request.stream():
            take(len(piece))
            content.extend(piece)
            if len(content) > largest:
                raise too_large

    try:
        await _within(limits.body_seconds, read())
    except asyncio.TimeoutError as error:
        raise RefusedError(408, "the body did not arrive in time") from error
    except ClientDisconnect as error:
        raise RefusedError(400, "the connection was closed before the whole body had arrived") from error
    return bytes(content)


async def _within(seconds: float, reading: Coroutine[Any, Any, None]) -> None:
    """Await, or raise TimeoutError; a body that is there already is read at once."""
    if sys.version_info < (3, 11):
        await asyncio.wait_for(reading, seconds)
    else:
        async with asyncio.timeout(seconds):  # `wait_for` makes a task, which waits for its turn
            await reading


async def object_of(request: Any, limits: Limits) -> dict[str, Any]:
    """Read a JSON object; an empty body is an empty one."""
    try:
        said = json.loads(await body_of(request, limits, OBJECT_BYTES) or b"{}")
    except (ValueError, RecursionError) as error:
        if isinstance(error, RefusedError):
            raise
        raise RefusedError(422, "the body is not JSON") from error
    if not isinstance(said, dict):
        raise RefusedError(422, "the body must be a JSON object")
    return said
