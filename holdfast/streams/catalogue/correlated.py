"""Continual shift with class-correlated samples."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from holdfast.data import Dataset
from holdfast.records import Domain
from holdfast.streams.builder import STREAMS
from holdfast.streams.catalogue.continual import continual
from holdfast.streams.stream import Stream


@STREAMS.register(
    "correlated",
    citation="Boudiaf et al., CVPR 2022; Gong et al., NeurIPS 2022; Marsden et al., WACV 2024",
    extends=STREAMS["continual"],
)
def correlated(data: Dataset, *, corruptions: Sequence[str | Domain], **options: Any) -> Stream:
    """One domain after the other, with the classes of each domain in bursts instead of independently drawn.

    Args:
        data: labelled samples, such as `Digits()`.
        corruptions: names of corruptions or domains, in their order; "clean" is none.
        **options: `severity`, and `samples_per_domain` (by default all of the data), `cycles` (repetitions; None:
            endlessly), `shuffle_steps`, `episodes` (each domain starts from the source model), `order` of classes with
            its own options (`concentration`, `slots`, `run`, `spread`), `seed`, and those of `Rendering`.
    """
    return continual(data, corruptions=corruptions, **{"order": "correlated", **options})
