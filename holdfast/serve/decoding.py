"""A bounded pool that decodes bodies beside the event loop, so that no body holds up other requests."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from torch import Tensor

from holdfast.serve.bodies import Decoder, is_array
from holdfast.serve.limits import RefusedError

THREADS = 2
AT_ONCE = 64 * 1024  # bytes
T = TypeVar("T")


class DecodingPool:
    """Decodes bodies in a few threads; refuses them when too many wait."""

    def __init__(self, decoder: Decoder, *, waiting: int) -> None:
        self.decoder = decoder
        self._threads = ThreadPoolExecutor(THREADS, "holdfast-decode")
        self._room = threading.BoundedSemaphore(waiting)

    async def decode(self, body: bytes, content_type: str) -> Tensor:
        """Return the batch in a body; a small array is read at once, which is faster than to hand it to a thread."""
        if len(body) <= AT_ONCE and is_array(content_type):
            return self.decoder.decode(body, content_type)
        return await self.run(self.decoder.decode, body, content_type)

    async def run(self, call: Callable[..., T], *arguments: Any) -> T:
        """Return what a function that decodes returns."""
        if not self._room.acquire(blocking=False):
            raise RefusedError(503, "too many bodies wait to be decoded; try again later")
        decoding = self._threads.submit(call, *arguments)
        decoding.add_done_callback(lambda _: self._room.release())  # also when the client has gone
        return await asyncio.wrap_future(decoding)

    def close(self) -> None:
        """End the threads."""
        self._threads.shutdown(wait=False, cancel_futures=True)
