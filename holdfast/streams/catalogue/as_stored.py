"""Exported or published shards as a stream, in their stored order."""

from __future__ import annotations

from holdfast.data import Shards
from holdfast.streams.builder import STREAMS
from holdfast.streams.rendering import Rendering
from holdfast.streams.shards.stored import StoredPlan
from holdfast.streams.stream import Stream


@STREAMS.register("as_stored", citation="Press et al., NeurIPS 2023")
def as_stored(data: Shards, *, seed: int = 0) -> Stream:
    """The samples of shards in their stored order, without rendering anything again."""
    if not isinstance(data, Shards):
        raise ValueError(
            f"as_stored needs the data set ccc_shards, got {type(data).__name__}; only shards have an order"
        )
    return Stream(StoredPlan(data), data, Rendering(seed=seed))
