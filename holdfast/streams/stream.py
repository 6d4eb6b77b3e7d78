"""A stream: a plan and the renderer that turns its picks into batches."""

from __future__ import annotations

import copy
import hashlib
import json
from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cached_property
from typing import Any, Literal, get_args

import numpy as np
import torch

from holdfast.corruptions import CORRUPTION_VERSION, CORRUPTIONS, Corruption, store_as_jpeg
from holdfast.data import Dataset
from holdfast.data.tensors import as_inputs
from holdfast.randomness import seed_for, seeded_rng
from holdfast.records import Batch, Picks
from holdfast.streams.plans.plan import Plan
from holdfast.streams.rendering import corrupted

__all__ = ["Draws", "Stream"]

Draws = Literal["sample", "position"]


class Stream:
    """A plan rendered on data: the same samples for every batch size, number of workers and starting point.

    `draws="sample"` keys the random draws of a corruption by the sample, so that it looks the same whenever it comes,
    as in published corrupted data sets; `draws="position"` draws anew at every visit. `own` are corruptions that this
    stream has by name besides those of the catalogue.
    """

    def __init__(
        self,
        plan: Plan,
        data: Dataset,
        *,
        seed: int = 0,
        family: str | None = None,
        storage_jpeg_quality: int | None = None,
        draws: Draws = "sample",
        own: Mapping[str, Corruption] | None = None,
    ) -> None:
        spec = data.input_spec
        self.own = dict(own or {})
        if spec.kind == "other":
            raise ValueError(f"{data.name} holds neither images nor sounds; a stream can render nothing else")
        if spec.kind == "audio" and (family or storage_jpeg_quality):
            raise ValueError(f"{data.name} holds sounds, which have no family and no JPEG; leave both options out")
        for name in (name for domain in plan.domains for name in domain.corruptions):
            if self._corruption(name).kind != spec.kind:
                suited = ", ".join(CORRUPTIONS.names(spec.kind))
                raise ValueError(f"{name} is no corruption of {spec.kind} data such as {data.name}; choose of {suited}")
        if draws not in get_args(Draws):
            raise ValueError(f"draws={draws!r} is unknown; choose one of {', '.join(get_args(Draws))}")
        self.plan = plan
        self.data = data
        self.seed = self.draw_seed = seed
        self.family = family
        self.storage_jpeg_quality = storage_jpeg_quality
        self.draws = draws
        self.domains = tuple(domain.name for domain in plan.domains)
        self.length = plan.length
        self.input_spec = spec
        sounds = f"mono float32 in [-1, 1] at {spec.sample_rate} Hz"
        self.preprocessing = sounds if spec.kind == "audio" else "uint8 / 255, float32, NCHW"
        self.num_classes = len(data.class_names)

    @cached_property
    def spec(self) -> dict[str, Any]:
        """Everything that determines the batches but the seeds, as plain JSON."""
        return {
            "plan": self.plan.spec(),
            "data": {"name": self.data.name, "digest": self.data.digest},
            "family": self.family,
            "storage_jpeg_quality": self.storage_jpeg_quality,
            "draws": self.draws,
            "corruption_version": CORRUPTION_VERSION,
            "preprocessing": self.preprocessing,
            **({"own": {name: corruption.source for name, corruption in self.own.items()}} if self.own else {}),
        }

    @property
    def protocol(self) -> str:
        """Hex digest of what the seeds do not decide: equal for streams that differ in their seeds only."""
        return _digest({**self.spec, "plan": self.plan.protocol()})

    @property
    def fingerprint(self) -> str:
        """Hex digest of the spec and the seeds: equal fingerprints mean equal samples in equal order."""
        return _digest({"spec": self.spec, "seed": self.seed, "plan_seed": self.plan.seed})

    @cached_property
    def twin(self) -> Stream:
        """The same samples in the same order under other draws of their corruptions: what offline runs adapt to."""
        twin = copy.copy(self)
        twin.draw_seed = seed_for(self.seed, "draws of the twin")
        return twin

    def episodes(self, stop: int) -> list[tuple[int, int]]:
        """Return where the episodes up to `stop` begin and end; a stream without any is one."""
        starts, position = [0], self.plan.next_break(0)
        while position is not None and position < stop:
            if self.plan.starts_episode(position):
                starts.append(position)
            position = self.plan.next_break(position)
        return list(zip(starts, [*starts[1:], stop], strict=True))

    def __iter__(self) -> Iterator[Batch]:
        return self.starting_at(0)

    def starting_at(
        self, position: int = 0, *, stop: int | None = None, batch_size: int = 64, workers: int = 0
    ) -> Generator[Batch, None, None]:
        """Return the batches from any position to `stop`, rendered ahead by `workers` threads where there are some."""
        if position < 0 or (self.length is not None and position > self.length):
            latest = "" if self.length is None else f" and at most {self.length}"
            raise ValueError(f"position {position} is not in the stream; pass 0 or more{latest}")
        if batch_size < 1 or workers < 0:
            raise ValueError(
                f"batch_size={batch_size} and workers={workers}: pass at least 1 sample and no fewer than 0 threads"
            )
        spans = self._spans(position, stop, batch_size)
        return _ahead(self.render, spans, workers) if workers else (self.render(*span) for span in spans)

    def first(self, samples: int) -> torch.Tensor:
        """Return the inputs of the first samples, without labels, for methods that look at the stream beforehand."""
        if samples < 1:
            raise ValueError(f"the first {samples} samples are none; ask for at least 1")
        stop = samples if self.length is None else min(samples, self.length)
        return torch.cat([self.render(start, min(start + 64, stop)).inputs for start in range(0, stop, 64)])

    def render(self, start: int, stop: int) -> Batch:
        """Return the samples at positions `start` to `stop` as one batch."""
        picks = self.plan.picks(start, stop)
        rate = self.input_spec.sample_rate
        known = {"family": self.family} if rate is None else {"sample_rate": rate}
        stored, rng_of = self.data.inputs(picks.samples), self._rng_of(picks, start)
        samples = corrupted(stored, picks, self.plan.domains, self._corruption, rng_of, **known)
        if self.storage_jpeg_quality is not None:
            samples = store_as_jpeg(samples, self.storage_jpeg_quality)
        expected = self.plan.expected(np.arange(start, stop))
        return Batch(
            inputs=as_inputs(samples),
            labels=self.data.labels[picks.samples],
            domains=tuple(self.domains[domain] for domain in picks.domains),
            position=start,
            new_episode=self.plan.starts_episode(start),
            expected=None if expected is None else float(expected.mean()),
        )

    def _corruption(self, name: str) -> Corruption:
        return self.own.get(name) or CORRUPTIONS[name]

    def _rng_of(self, picks: Picks, start: int) -> Callable[[str, int], np.random.Generator]:
        keys = picks.samples if self.draws == "sample" else np.arange(start, start + len(picks))
        return lambda purpose, row: seeded_rng(self.draw_seed, purpose, int(keys[row]))

    def _spans(self, position: int, stop: int | None, batch_size: int) -> Iterator[tuple[int, int]]:
        """Yield where each batch begins and ends; none goes across a break of the plan."""
        last = min((end for end in (stop, self.length) if end is not None), default=None)
        while last is None or position < last:
            ends = (position + batch_size, self.plan.next_break(position), last)
            end = min(end for end in ends if end is not None)
            yield position, end
            position = end


def _ahead(
    render: Callable[[int, int], Batch], spans: Iterator[tuple[int, int]], workers: int
) -> Generator[Batch, None, None]:
    """Yield the batches in order, at most two for each worker ahead of the reader."""
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
