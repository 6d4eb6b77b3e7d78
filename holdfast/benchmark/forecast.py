"""What a suite will cost, measured on its first batches: hours, core-hours, GPU-hours, disk and the bottleneck."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

from holdfast.benchmark.building import build
from holdfast.benchmark.groups import groups_of
from holdfast.benchmark.job import Job
from holdfast.benchmark.prefetch import placed
from holdfast.benchmark.preparation import BYTES_PER_BATCH
from holdfast.streams import Stream

EXACT = 100_000  # samples up to which batches are counted one by one
BATCHES = 3  # measured for each recipe, after one to warm up


@dataclass(frozen=True)
class Forecast:
    """The cost of all jobs of one recipe on one model; unknown lengths count as one batch."""

    recipe: str
    model: str
    jobs: int
    hours: float  # of steps, on one core or device
    rendering_hours: float  # on one core, this recipe's share of what its group renders
    gpu_hours: float
    disk_mb: float
    error: str = ""  # why it could not be measured

    @property
    def core_hours(self) -> float:
        """Hours of cores, for rendering and, on the CPU, for steps."""
        return self.rendering_hours + self.hours - self.gpu_hours

    @property
    def bottleneck(self) -> str:
        """The side that takes longer."""
        return "rendering" if self.rendering_hours > self.hours else "the network"


def forecast(jobs: Sequence[Job], together: int = 10) -> list[Forecast]:
    """Measure a few batches of each recipe and model, and return what all of their jobs will cost."""
    members = {job.name: len(group) for group in groups_of(jobs, at_most=together) for job in group}
    alike: dict[tuple[str, str], list[Job]] = {}
    for job in jobs:
        alike.setdefault((job.recipe.label, job.model.label), []).append(job)
    return [_measured(recipe, model, same, members) for (recipe, model), same in alike.items()]


def _count(stream: Stream, total: int, batch_size: int) -> int:
    """Return the number of batches, exactly for short streams and without their breaks for long ones."""
    return -(-total // batch_size) if total > EXACT else sum(1 for _ in stream.spans(0, total, batch_size))


def _measured(recipe: str, model: str, jobs: Sequence[Job], members: dict[str, int]) -> Forecast:
    first = jobs[0]
    try:
        built = build(first)
        stream = built.stream
        batches = len(jobs) * (1 if built.total is None else _count(stream, built.total, first.batch_size))
        seconds = []  # of rendering and of the step, by batch
        spans = stream.spans(0, built.total, first.batch_size)
        with first.placement.computing():
            for span in islice(spans, BATCHES + 1):
                began = time.perf_counter()
                batch = stream.read(*span)
                rendered = time.perf_counter()
                built.model.step(placed(batch.inputs, first.placement))
                first.placement.wait()
                seconds.append((rendered - began, time.perf_counter() - rendered))
    except Exception as error:  # a recipe that cannot run says so here already
        return Forecast(recipe, model, len(jobs), 0.0, 0.0, 0.0, 0.0, f"{type(error).__name__}: {error}")
    measured = seconds[1:] or seconds  # the first batch warms up
    rendering, steps = (min(column) for column in zip(*measured, strict=True))  # other work only adds to it
    hours = steps * batches * first.epochs / 3600
    shared = rendering * batches / members[first.name] / 3600
    on_gpu = hours if first.placement.kind != "cpu" else 0.0
    return Forecast(recipe, model, len(jobs), hours, shared, on_gpu, batches * BYTES_PER_BATCH / 1e6)
