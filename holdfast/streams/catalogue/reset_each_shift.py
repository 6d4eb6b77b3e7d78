"""Continual shift with a reset to the source model at every new domain."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from holdfast.data import Dataset
from holdfast.records import Domain
from holdfast.streams.builder import STREAMS
from holdfast.streams.catalogue.continual import continual
from holdfast.streams.stream import Stream


@STREAMS.register("reset_each_shift", citation="Wang et al., ICLR 2021", extends=STREAMS["continual"])
def reset_each_shift(data: Dataset, *, corruptions: Sequence[str | Domain], **options: Any) -> Stream:
    """One domain after the other, each an episode that starts from the source model.

    Args:
        data: the data set.
        corruptions: names of corruptions, or domains, in order.
        **options: those of `continual`.
    """
    return continual(data, corruptions=corruptions, **{"episodes": True, **options})
