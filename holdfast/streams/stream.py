"""A stream: a plan, the data, and a rendering that turns picks into batches."""

from __future__ import annotations

import hashlib
import json
from collections import deque
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
import torch

from holdfast.corruptions import CORRUPTION_VERSION, CORRUPTIONS
from holdfast.data import Dataset, StoredCorruptions
from holdfast.data.stored import clean_of
from holdfast.data.tensors import as_inputs
from holdfast.records import Batch
from holdfast.streams.plans.plan import Plan
from holdfast.streams.reading import check_rendering, read_stored
from holdfast.streams.rendering import Rendering

SHOWN_DOMAINS = 6  # by name


class Stream:
    """A plan rendered on data: the same samples for every batch size, number of workers and starting position.

    Offline protocols adapt to `redrawn()`, the same samples under other draws; `redraw` sets how that is rendered.
    Data that holds its corruptions (`StoredCorruptions`) is read as it is stored; nothing is computed.

    Args:
        plan: which samples come, in which domain, in which order.
        data: the data set that they are read from.
        rendering: how they become inputs; None: as `Rendering()`.
        redraw: how `redrawn()` renders; None: with other draws of the same rendering.
    """

    def __init__(
        self, plan: Plan, data: Dataset, rendering: Rendering | None = None, *, redraw: Rendering | None = None
    ) -> None:
        self.plan = plan
        self.data = data
        self.rendering = rendering or Rendering()
        self.redraw = redraw
        spec = data.input_spec
        if spec.kind == "other":
            raise ValueError(f"streams render images and audio only, and {data.name} holds neither")
        if spec.kind == "audio" and (
            self.rendering.family or self.rendering.storage_jpeg_quality or self.rendering.crop
        ):
            raise ValueError(
                f"{data.name} holds audio, which has no family, no crop and no JPEG storage; leave these options out"
            )
        if isinstance(data, StoredCorruptions):
            check_rendering(self.rendering, plan, data)
        else:
            self._check_kinds()
        self.domains = tuple(domain.name for domain in plan.domains)
        self.length = plan.length
        self.input_spec = spec
        audio = f"mono float32 in [-1, 1] at {spec.sample_rate} Hz"
        self.preprocessing = audio if spec.kind == "audio" else "uint8 / 255, float32, NCHW"
        self.num_classes = len(data.class_names)

    def __repr__(self) -> str:
        """Return the data, the length and the domains in one line.

        >>> from holdfast.data import Digits
        >>> from holdfast.streams import continual
        >>> continual(Digits(), corruptions=["fog", "contrast"], samples_per_domain=128)
        Stream(digits/test, 256 samples, 2 domains: fog, contrast)
        """
        return f"Stream({', '.join(self._facts().values())})"

    def _facts(self) -> dict[str, str]:
        """Return what the stream is, in words."""
        count, more = len(self.domains), len(self.domains) - SHOWN_DOMAINS
        names = ", ".join(self.domains[:SHOWN_DOMAINS]) + (f" and {more} more" if more > 0 else "")
        return {
            "data": self.data.name,
            "length": "endless" if self.length is None else f"{self.length:,} samples",
            "domains": f"{count} domain{'s' if count > 1 else ''}: {names}",
        }

    def _repr_html_(self) -> str:
        from holdfast.display import facts

        shape = "×".join(map(str, self.input_spec.shape))
        inputs = f"{self.input_spec.kind} {shape}, {self.num_classes} classes, {self.preprocessing}"
        return facts("Stream", {**self._facts(), "inputs": inputs})

    @cached_property
    def spec(self) -> dict[str, Any]:
        """Everything that determines the batches except the seeds, as plain JSON."""
        data = {"name": self.data.name, "digest": self.data.digest}
        if isinstance(self.data, StoredCorruptions):
            return {
                "plan": self.plan.spec(),
                "data": data,
                "corruptions": "stored",
                "preprocessing": self.preprocessing,
            }
        return {
            "plan": self.plan.spec(),
            "data": data,
            **self.rendering.spec(name for domain in self.plan.domains for name in domain.corruptions),
            "corruption_version": CORRUPTION_VERSION,
            "preprocessing": self.preprocessing,
        }

    @property
    def protocol(self) -> str:
        """Hex digest of everything but the seeds: equal for streams that differ in their seeds only."""
        return _digest({**self.spec, "plan": self.plan.protocol()})

    @property
    def fingerprint(self) -> str:
        """Hex digest of the spec and of all seeds: equal fingerprints mean equal samples in equal order."""
        return _digest({"spec": self.spec, "seed": self.rendering.seed, "plan_seed": self.plan.seed})

    def redrawn(self, seed: int | None = None) -> Stream:
        """Return the same samples in the same order under other draws of their corruptions.

        The draws are those of `seed`, by default the ones that offline protocols adapt to. Stored corruptions have one
        draw only, so that others are computed from the clean samples.
        """
        data = self.data
        if isinstance(data, StoredCorruptions):
            data = clean_of(data.name, data.clean, self.data.labels)
        other = self.redraw if seed is None and self.redraw is not None else self.rendering.redrawn(seed)
        return Stream(self.plan, data, other)

    def episodes(self, stop: int) -> list[tuple[int, int]]:
        """Return where each episode up to `stop` begins and ends; a stream without episodes is a single one."""
        starts, position = [0], self.plan.next_break(0)
        while position is not None and position < stop:
            if self.plan.starts_episode(position):
                starts.append(position)
            position = self.plan.next_break(position)
        return list(zip(starts, [*starts[1:], stop], strict=True))

    def __iter__(self) -> Iterator[Batch]:
        return self.starting_at(0)

    def starting_at(
        self,
        position: int = 0,
        *,
        stop: int | None = None,
        batch_size: int = 64,
        workers: int = 0,
        stored: bool = False,
    ) -> Generator[Batch, None, None]:
        """Return the batches from any position to `stop`, rendered ahead by `workers` threads (0: none).

        With `stored` they hold images as bytes, which `as_inputs` converts, for example on another device.
        """
        if position < 0 or (self.length is not None and position > self.length):
            latest = "" if self.length is None else f" and at most {self.length}"
            raise ValueError(f"position must be at least 0{latest}, got {position}")
        if batch_size < 1 or workers < 0:
            raise ValueError(f"batch_size must be at least 1 and workers at least 0, got {batch_size} and {workers}")
        spans = self._spans(position, stop, batch_size)
        render = self.read if stored else self.render
        return _ahead(render, spans, workers) if workers else (render(*span) for span in spans)

    def spans(self, position: int, stop: int | None, batch_size: int) -> Iterator[tuple[int, int]]:
        """Return where each batch of `starting_at` begins and ends, for `render` and `read`."""
        return self._spans(position, stop, batch_size)

    def first(self, samples: int) -> torch.Tensor:
        """Return the inputs of the first samples, without labels."""
        if samples < 1:
            raise ValueError(f"samples must be at least 1, got {samples}")
        stop = samples if self.length is None else min(samples, self.length)
        return torch.cat([self.render(start, min(start + 64, stop)).inputs for start in range(0, stop, 64)])

    def render(self, start: int, stop: int) -> Batch:
        """Return the samples at positions `start` to `stop` as one batch."""
        batch = self.read(start, stop)
        return replace(batch, inputs=as_inputs(batch.inputs))

    def read(self, start: int, stop: int) -> Batch:
        """Return the same batch with its samples as data sets hold them: images as bytes, (n, height, width, 3)."""
        picks = self.plan.picks(start, stop)
        if isinstance(self.data, StoredCorruptions):
            samples = read_stored(self.data, picks, self.plan.domains)
        else:
            loaded = self.rendering.load(self.data, picks, start)
            samples = self.rendering.render(loaded, picks, self.plan.domains, start, self.input_spec)
        expected = self.plan.expected(np.arange(start, stop))
        return Batch(
            inputs=torch.from_numpy(samples),
            labels=self.data.labels[picks.samples],
            domains=tuple(self.domains[domain] for domain in picks.domains),
            position=start,
            new_episode=self.plan.starts_episode(start),
            expected=None if expected is None else float(expected.mean()),
        )

    def _check_kinds(self) -> None:
        """Raise if a corruption is not made for the kind of the data."""
        kind: Literal["image", "audio"] = "audio" if self.data.input_spec.kind == "audio" else "image"
        for name in (name for domain in self.plan.domains for name in domain.corruptions):
            if self.rendering.corruption(name).kind != kind:
                suited = ", ".join(CORRUPTIONS.names(kind))
                raise ValueError(f"{name} cannot corrupt {kind} data such as {self.data.name}; choose from {suited}")

    def _spans(self, position: int, stop: int | None, batch_size: int) -> Iterator[tuple[int, int]]:
        """Yield where each batch begins and ends; none crosses a break of the plan."""
        last = min((end for end in (stop, self.length) if end is not None), default=None)
        while last is None or position < last:
            ends = (position + batch_size, self.plan.next_break(position), last)
            end = min(end for end in ends if end is not None)
            yield position, end
            position = end


def _ahead(
    render: Callable[[int, int], Batch], spans: Iterator[tuple[int, int]], workers: int
) -> Generator[Batch, None, None]:
    """Yield the batches in order, rendered at most two per worker ahead of the reader."""
    pool = ThreadPoolExecutor(workers, thread_name_prefix="holdfast-render")
    waiting: deque[Future[Batch]] = deque()
    try:
        for span in spans:
            waiting.append(pool.submit(render, *span))
            if len(waiting) > 2 * workers:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _digest(content: dict[str, Any]) -> str:
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
