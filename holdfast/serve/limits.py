"""Limits of a service: sizes, rates and names that it accepts."""

from __future__ import annotations

import re
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

TENANT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


class RefusedError(ValueError):
    """A request that is refused; the message is for the client, `status` is the HTTP status."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True)
class Limits:
    """What one request may cost."""

    body_bytes: int = 16 * 2**20
    bodies_bytes: int = 256 * 2**20  # of all requests under way
    pixels: int = 4096 * 4096  # of an encoded image before it is resized
    audio_seconds: float = 60.0  # of an encoded waveform before it is cut
    decoded: float = 8.0  # of the largest images or waveforms, all parts of a form together
    batch: int = 256  # samples in one request
    requests_per_second: float = 1000.0  # of one tenant
    queued: int = 4096  # samples that wait for their prediction, of all tenants
    decoding: int = 64  # bodies that wait to be decoded, of all tenants
    connections: int = 512
    head_seconds: float = 10.0  # until the head of a request has arrived, from the connection or its first byte on
    tenants: int = 1000
    body_seconds: float = 20.0  # until the whole body of a request has arrived

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not value > 0:  # nan neither
                raise ValueError(f"{name} must be positive, got {value}")


def check_tenant(name: str) -> str:
    """Return the name of a tenant, or raise if it could be anything but a plain file name.

    >>> check_tenant("camera-1")
    'camera-1'
    >>> check_tenant("../etc")
    Traceback (most recent call last):
    holdfast.serve.limits.RefusedError: a tenant's name has 1 to 64 letters, digits, '.', '_' or '-' and starts with \
a letter or digit
    """
    if not TENANT.fullmatch(name):
        raise RefusedError(
            422,
            "a tenant's name has 1 to 64 letters, digits, '.', '_' or '-' and starts with a letter or digit",
        )
    return name


class Rate:
    """Counts requests by key, and refuses those above a rate: a bucket of one second for each key.

    >>> now = [0.0]; rate = Rate(2, clock=lambda: now[0])
    >>> [rate.take("a"), rate.take("a"), rate.take("a")]
    [True, True, False]
    >>> now[0] = 0.5; rate.take("a")
    True
    """

    def __init__(self, per_second: float, *, keys: int = 10_000, clock: Callable[[], float] = time.monotonic) -> None:
        self.per_second, self.keys, self._clock = per_second, keys, clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()  # key -> (left, at that time)

    def take(self, key: str) -> bool:
        """Count a request, and return whether it is within the rate."""
        now, full = self._clock(), max(1.0, self.per_second)
        left, since = self._buckets.pop(key, (full, now))
        left = min(full, left + (now - since) * self.per_second)
        self._buckets[key] = (left - 1 if left >= 1 else left, now)
        if len(self._buckets) > self.keys:
            self._buckets.popitem(last=False)
        return left >= 1
