"""Batches ahead of time: rendered in worker processes where that pays, in order, the same for any number of workers."""

from __future__ import annotations

import os
import pickle
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import fields, replace
from typing import Any

import torch
from threadpoolctl import threadpool_limits
from torch import Tensor

from holdfast.data.tensors import as_inputs
from holdfast.machine.children import CHILDREN
from holdfast.machine.devices import Placement
from holdfast.options.own_code import OwnFile, loaded_files
from holdfast.records import Batch
from holdfast.streams import Stream

Span = tuple[int, int]

AHEAD = 2  # batches for each worker
TRIAL = 3  # batches that are rendered here before the number of workers is chosen
WORTH = 20.0  # seconds of rendering that are left: fewer do not pay for starting workers


def usable_cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def workers_for(render_seconds: float, step_seconds: float, batches: float, cores: int) -> int:
    """Return how many of the cores should render, from the time that a batch takes on either side.

    >>> workers_for(1.0, 0.01, 100, cores=2), workers_for(1.0, 1.0, 100, cores=2), workers_for(0.1, 1.0, 1000, cores=2)
    (2, 1, 0)
    >>> workers_for(1.0, 1.0, 3, cores=2), workers_for(1.0, 0.01, 100, cores=1)
    (0, 0)
    """
    if cores < 2 or render_seconds * batches < WORTH:
        return 0
    return min(cores, round(cores * render_seconds / (render_seconds + step_seconds)))


class Prefetch:
    """Reads spans of a stream in order; `workers` processes render them ahead, None chooses by what it measures."""

    def __init__(self, stream: Stream, workers: int | None = 0, cores: int = 1) -> None:
        self.stream, self.workers, self.cores = stream, workers, cores
        self.waited = self.stepped = 0.0  # seconds: for batches, and between them
        self._pool: ProcessPoolExecutor | None = None

    def batches(self, spans: Iterable[Span], count: float = float("inf")) -> Iterator[Batch]:
        """Yield the stored batch of each span; `count` is about how many there are."""
        left, done = iter(spans), 0
        while self.workers is None:  # render here until it is known how many workers pay
            span = next(left, None)
            if span is None:
                return
            yield from self._timed(self._read(iter([span])))
            done += 1
            if done >= TRIAL:
                self.workers = self._chosen(done, count)
        yield from self._timed(self._ahead(left) if self.workers else self._read(left))

    @property
    def rendering_share(self) -> float:
        """The share of the time that was spent waiting for batches."""
        return self.waited / max(1e-9, self.waited + self.stepped)

    def close(self) -> None:
        """End the workers."""
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)
            self._pool = None

    def __enter__(self) -> Prefetch:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _chosen(self, done: int, count: float) -> int:
        chosen = workers_for(self.waited / done, self.stepped / done, count - done, self.cores)
        try:
            pickle.dumps(self.stream)
        except (pickle.PicklingError, AttributeError, TypeError):  # data of the caller's own that cannot be sent
            return 0
        return chosen

    def _timed(self, batches: Iterator[Batch]) -> Iterator[Batch]:
        while True:
            began = time.perf_counter()
            batch = next(batches, None)
            ready = time.perf_counter()
            self.waited += ready - began
            if batch is None:
                return
            yield batch
            self.stepped += time.perf_counter() - ready

    def _read(self, spans: Iterator[Span]) -> Iterator[Batch]:
        return (self.stream.read(*span) for span in spans)

    def _ahead(self, spans: Iterator[Span]) -> Iterator[Batch]:
        """Yield batches that workers have rendered, at most `AHEAD` for each of them before they are asked for."""
        submit, waiting = self._started(), deque[Future[dict[str, Any]]]()
        for span in spans:
            waiting.append(submit(span))
            if len(waiting) > AHEAD * (self.workers or 1):
                yield _received(waiting.popleft())
        while waiting:
            yield _received(waiting.popleft())

    def _started(self) -> Callable[[Span], Future[dict[str, Any]]]:
        if self._pool is None:
            self._pool = ProcessPoolExecutor(self.workers, CHILDREN, _prepare, (loaded_files(), self.stream))
        pool = self._pool
        return lambda span: pool.submit(_render, *span)


_stream: Stream  # of a worker, which serves one stream only


def _prepare(_files: tuple[OwnFile, ...], stream: Stream) -> None:
    global _stream
    torch.set_num_threads(1)
    threadpool_limits(1, user_api="blas")  # for good: workers share the cores
    _stream = stream


def _render(start: int, stop: int) -> dict[str, Any]:
    """Return the fields of a batch, its samples as an array: torch would keep a file open for every tensor it sends."""
    batch = _stream.read(start, stop)
    return {**{field.name: getattr(batch, field.name) for field in fields(batch)}, "inputs": batch.inputs.numpy()}


def _received(future: Future[dict[str, Any]]) -> Batch:
    sent = future.result()
    return Batch(**{**sent, "inputs": torch.from_numpy(sent["inputs"])})


def placed(samples: Tensor, placement: Placement) -> Tensor:
    """Return stored samples as inputs on the device: bytes are moved before they become floats.

    >>> import torch
    >>> placed(torch.full((1, 2, 2, 3), 255, dtype=torch.uint8), Placement()).shape
    torch.Size([1, 3, 2, 2])
    """
    return placement.lay_out(as_inputs(placement.move(samples)))


def fed(batches: Iterable[Batch], placement: Placement) -> Iterator[Batch]:
    """Yield batches of stored samples with their inputs on the device."""
    for batch in batches:
        yield replace(batch, inputs=placed(batch.inputs, placement))
