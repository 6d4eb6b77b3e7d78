"""Gradual shift: severities that rise and fall."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from holdfast.data import Dataset
from holdfast.options.ranges import Severity
from holdfast.records import Domain
from holdfast.streams.builder import STREAMS
from holdfast.streams.plans.domains import domains_named
from holdfast.streams.steps import stream_of
from holdfast.streams.stream import Stream


@STREAMS.register("gradual", citation="Wang et al., CVPR 2022", extends=stream_of)
def gradual(
    data: Dataset,
    *,
    corruptions: Sequence[str | Domain],
    severities: Sequence[Severity] = (1, 2, 3, 4, 5, 4, 3, 2, 1),
    **options: Any,
) -> Stream:
    """One domain after the other, each rising through the severities and falling again.

    As published, the samples of a domain come at every severity: `samples_per_domain` counts those of one severity.

    Args:
        data: labelled samples, such as `Digits()`.
        corruptions: names of corruptions or domains, in their order; "clean" is none.
        severities: that each domain goes through, each from 0 to 5.
        **options: `samples_per_domain` (by default all of the data), `cycles` (repetitions; None: endlessly),
            `shuffle_steps`, `episodes` (each domain starts from the source model), `order` of classes with its own
            options (`concentration`, `slots`, `run`, `spread`), `seed`, and those of `Rendering`.
    """
    steps = [[(domain, severity)] for domain in domains_named(corruptions, data) for severity in severities]
    return stream_of(data, steps, **options)
