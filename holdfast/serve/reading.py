"""Read a request: whose it is, and its body, of limited size and in limited time."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from holdfast.serve.limits import Limits, RefusedError

__all__ = ["DEFAULT_TENANT", "body_of", "object_of", "tenant_of"]

DEFAULT_TENANT = "default"


def tenant_of(request: Any, tenant: str | None, body: dict[str, Any] | None = None) -> str:
    """Return the tenant that a request names in its path, header or body, in this order; else the default one."""
    given = (tenant, request.headers.get("x-tenant"), (body or {}).get("tenant"))
    found = next((one for one in given if one is not None), DEFAULT_TENANT)
    return found if isinstance(found, str) else ""  # an empty name is refused: it is not the default tenant


async def body_of(request: Any, limits: Limits) -> bytes:
    """Read a body of limited size in limited time."""
    too_large = RefusedError(413, f"the body has over {limits.body_bytes} bytes")
    announced = request.headers.get("content-length", "0")
    if not announced.isdecimal() or int(announced) > limits.body_bytes:
        raise too_large
    content = bytearray()

    async def read() -> None:
        async for piece in request.stream():
            content.extend(piece)
            if len(content) > limits.body_bytes:
                raise too_large

    try:
        await asyncio.wait_for(read(), limits.body_seconds)
    except asyncio.TimeoutError as error:
        raise RefusedError(408, "the body did not arrive in time") from error
    return bytes(content)


async def object_of(request: Any, limits: Limits) -> dict[str, Any]:
    """Read a JSON object; an empty body is an empty one."""
    try:
        found = json.loads(await body_of(request, limits) or b"{}")
    except (ValueError, RecursionError) as error:
        if isinstance(error, RefusedError):
            raise
        raise RefusedError(422, "the body is not JSON") from error
    if not isinstance(found, dict):
        raise RefusedError(422, "the body must be a JSON object")
    return found
