"""Micro-batches: requests of one tenant that arrive within its latency budget are predicted together."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from torch import Tensor

from holdfast.serve.limits import RefusedError

LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class Request:
    """Inputs of one tenant, (samples, …), and what takes the result."""

    tenant: str
    inputs: Tensor
    answer: Callable[[object], None]  # an answer, or the exception instead of one
    sent: threading.Event | None = None  # set when the reply is on its way, if anyone says so
    arrived: float = field(default_factory=time.perf_counter)


class Worker:
    """One thread that hands over requests in batches: never of two tenants, never splitting a request.

    A batch is due when `batch` samples wait, or when the first of them has waited for `wait` seconds. `serve` is called
    with the tenant and the requests of one batch; it answers them.
    """

    def __init__(
        self,
        serve: Callable[[str, Sequence[Request]], None],
        *,
        batch: int = 64,
        wait: float = 0.01,
        queued: int = 4096,
        tenants: int = 1000,
    ) -> None:
        if batch < 1 or not 0 <= wait < math.inf:
            raise ValueError(f"batch must be at least 1 and wait a time of at least 0 seconds, got {batch} and {wait}")
        self.batch, self.wait, self.queued, self._serve = batch, wait, queued, serve
        self._tenants = tenants
        self._queues: OrderedDict[str, deque[Request]] = OrderedDict()  # by the arrival of their first request
        self._waiting = 0  # samples
        self._stopping = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="holdfast-worker", daemon=True)

    def start(self) -> Worker:
        """Start the thread, and return the worker."""
        self._thread.start()
        return self

    @property
    def waiting(self) -> int:
        """The number of samples that wait."""
        return self._waiting

    @property
    def alive(self) -> bool:
        """Whether requests are taken and served."""
        return self._thread.is_alive() and not self._stopping

    def put(self, request: Request) -> None:
        """Queue a request; refuses it when too many samples wait or the worker stops."""
        with self._changed:
            if self._stopping:
                raise RefusedError(503, "the service is stopping")
            if self._waiting + len(request.inputs) > self.queued:
                raise RefusedError(503, "too many samples wait for their prediction; try again later")
            self._queues.setdefault(request.tenant, deque()).append(request)
            self._waiting += len(request.inputs)
            self._changed.notify()

    def hurry(self) -> None:
        """Wait for no batch to fill any more: the service is about to stop."""
        with self._changed:
            self.wait = 0.0
            self._changed.notify()

    def stop(self) -> None:
        """Serve what waits, then end the thread."""
        with self._changed:
            self._stopping = True
            self._changed.notify()
        self._thread.join()

    def _run(self) -> None:
        while True:
            with self._changed:
                tenant = self._due()
                while tenant is None:
                    if self._stopping and not self._queues:
                        return
                    self._changed.wait(self._seconds_left())
                    tenant = self._due()
                requests = self._take(tenant)
            try:
                self._serve(tenant, requests)
            except Exception as error:
                if not isinstance(error, RefusedError):
                    LOG.exception("a batch failed")
                for request in requests:
                    request.answer(error)

    def _due(self) -> str | None:
        """Return the tenant whose batch is due for the longest time."""
        now = time.perf_counter()
        for tenant, queue in self._queues.items():
            if self._stopping or now - queue[0].arrived >= self.wait or self._samples(queue) >= self.batch:
                return tenant
        return None

    def _seconds_left(self) -> float | None:
        if not self._queues:
            return None
        first = min(queue[0].arrived for queue in self._queues.values())
        return max(0.0, first + self.wait - time.perf_counter())

    def _samples(self, queue: deque[Request]) -> int:
        return sum(len(request.inputs) for request in queue)

    def _take(self, tenant: str) -> list[Request]:
        queue = self._queues.pop(tenant)
        taken = [queue.popleft()]
        samples = len(taken[0].inputs)
        while queue and samples + len(queue[0].inputs) <= self.batch:
            samples += len(queue[0].inputs)
            taken.append(queue.popleft())
        if queue:
            self._queues[tenant] = queue  # at the end: the others come first
        self._waiting -= samples
        return taken
