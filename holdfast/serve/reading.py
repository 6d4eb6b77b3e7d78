"""Read a request: whose it is, and its body, of limited size and in limited time."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from holdfast.serve.limits import Limits, RefusedError

__all__ = ["DEFAULT_TENANT", "body_of", "object_of", "tenant_of"]

DEFAULT_TENANT = "default"
OBJECT_BYTES = 64 * 1024  # it is read on the event loop


def tenant_of(*named: str | None) -> str:
    """Return the first name that was given, also an empty one, which is refused; else that of the default tenant.

    >>> tenant_of(None, "north"), tenant_of("", "north"), tenant_of(None)
    ('north', '', 'default')
    """
    return next((one for one in named if one is not None), DEFAULT_TENANT)


async def body_of(request: Any, limits: Limits, most: int | None = None) -> bytes:
    """Read a body of limited size in limited time."""
    largest = limits.body_bytes if most is None else most
    too_large = RefusedError(413, f"the body has over {largest} bytes")
    announced = request.headers.get("content-length", "0")
    if not announced.isdecimal() or int(announced) > largest:
        raise too_large
    content = bytearray()

    async def read() -> None:
        async for piece in request.stream():
            content.extend(piece)
            if len(content) > largest:
                raise too_large

    try:
        await asyncio.wait_for(read(), limits.body_seconds)
    except asyncio.TimeoutError as error:
        raise RefusedError(408, "the body did not arrive in time") from error
    return bytes(content)


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
