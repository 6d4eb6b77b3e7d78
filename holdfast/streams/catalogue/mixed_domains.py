"""All domains mixed."""

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


@STREAMS.register("mixed_domains", citation="Marsden et al., WACV 2024", extends=stream_of)
def mixed_domains(
    data: Dataset, *, corruptions: Sequence[str | Domain], severity: Severity = 5, **options: Any
) -> Stream:
    """All domains at once: the domain is drawn for every sample, so that a batch holds several.

    Args:
        data: labelled samples, such as `Digits()`.
        corruptions: names of corruptions or domains to draw from.
        severity: from 0 (unchanged) to 5.
        **options: `samples_per_domain` (by default all of the data), `cycles` (repetitions; None: endlessly),
            `shuffle_steps`, `episodes` (each domain starts from the source model), `order` of classes with its own
            options (`concentration`, `slots`, `run`, `spread`), `seed`, and those of `Rendering`.
    """
    return stream_of(data, [[(domain, severity) for domain in domains_named(corruptions, data)]], **options)
