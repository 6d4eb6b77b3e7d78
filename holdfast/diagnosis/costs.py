"""Measure what a step of each method costs on this machine."""

from __future__ import annotations

import statistics
import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from torch import Tensor, nn

from holdfast.anchor import Card
from holdfast.benchmark.peak_memory import forget_peak, peak_mib
from holdfast.methods import METHODS
from holdfast.model.adapt import adapt
from holdfast.models.outputs import Output
from holdfast.recipes import recipe_of
from holdfast.records import SetupWarning

STEPS = 3


@dataclass(frozen=True)
class StepCost:
    """The median step of a method, or why it does not suit the network."""

    method: str
    milliseconds: float | None = None  # per batch
    times_source: float | None = None
    peak_mib: float | None = None  # of the process
    refused: str | None = None
    follows: bool = True  # False: it predicts as the source does until it is shown source samples


def step_costs(
    network: nn.Module,
    methods: Sequence[str],
    batch: Tensor,
    head: str | None,
    output: Output,
    *,
    source: Sequence[Tensor] = (),
    card: Card | None = None,
) -> Iterator[StepCost]:
    """Take a few steps with each method on one batch; the source comes first.

    Methods that follow inputs from source data are shown `source`, or the `card`.
    """
    source_seconds: float | None = None
    for name in dict.fromkeys(["source", *methods]):
        forget_peak()
        try:
            kind = METHODS[recipe_of(name).method]
            shown = source if kind.uses_reference else [batch] if kind.requires_source({}) else None
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", ".*has no source samples", SetupWarning)  # the finding says so
                model = adapt(network, name, example=batch, head=head, output=output, source=shown or None, card=card)
        except ValueError as error:
            yield StepCost(name, refused=str(error))
            continue
        seconds = []
        for _ in range(STEPS):
            start = time.perf_counter()
            model.step(batch)
            seconds.append(time.perf_counter() - start)
        median = statistics.median(seconds)
        source_seconds = source_seconds or median
        cost = StepCost(name, round(1e3 * median, 2), round(median / source_seconds, 2), peak_mib())
        yield replace(cost, follows=model.method.referred)
