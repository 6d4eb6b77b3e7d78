"""Continual shift: one domain after the other."""

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


@STREAMS.register("continual", citation="Wang et al., CVPR 2022", extends=stream_of)
def continual(
    data: Dataset,
    *,
    corruptions: Sequence[str | Domain],
    severity: Severity = 5,
    **options: Any,
) -> Stream:
    """One domain after the other, in the given order; the model is not told when the domain changes.

    Args:
        data: labelled samples, such as `Digits()`.
        corruptions: names of corruptions or domains, in their order; "clean" is none.
        severity: from 0 (unchanged) to 5.
        **options: `samples_per_domain` (by default all of the data), `cycles` (repetitions; None: endlessly),
            `shuffle_steps`, `episodes` (each domain starts from the source model), `order` of classes with its own
            options (`concentration`, `slots`, `run`, `spread`), `seed`, and those of `Rendering`.

    >>> from holdfast.data import Digits
    >>> stream = continual(Digits(), corruptions=["pixelate", "contrast", "clean"], samples_per_domain=100)
    >>> stream.length, [len(batch) for batch in stream]
    (300, [64, 36, 64, 36, 64, 36])
    """
    return stream_of(data, [[(domain, severity)] for domain in domains_named(corruptions, data)], **options)
