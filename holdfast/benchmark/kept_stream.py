"""A stream that keeps rendered batches for the next job: recipes that follow one another see the same batches."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from holdfast.records import Batch
from holdfast.streams import Stream

__all__ = ["KeptStream", "bare", "forget_kept", "kept"]

LIMIT = 128 * 2**20  # bytes of rendered inputs


class KeptStream(Stream):
    """Renders each batch once and keeps it until `LIMIT` is reached; later batches are rendered every time."""

    def __init__(self, stream: Stream) -> None:
        super().__init__(stream.plan, stream.data, stream.rendering, redraw=stream.redraw)
        self._kept: dict[tuple[int, int], Batch] = {}
        self._bytes = 0

    def read(self, start: int, stop: int) -> Batch:
        """Return a batch whose inputs the caller may change."""
        batch = self._kept.get((start, stop))
        if batch is None:
            batch = super().read(start, stop)
            self._bytes += batch.inputs.nbytes
            if self._bytes > LIMIT:
                return batch
            self._kept[start, stop] = batch
        return replace(batch, inputs=batch.inputs.clone())


def kept(stream: Stream) -> Stream:
    """Return the stream of the last job if it is the same, else this one, which then keeps its batches."""
    return _last(_Same(stream)) if type(stream) is Stream else stream


def forget_kept() -> None:
    """Drop the stream of the last job and its batches."""
    _last.cache_clear()


def bare(stream: Stream) -> Stream:
    """Return the same stream without kept batches, for another process."""
    if not isinstance(stream, KeptStream):
        return stream
    return Stream(stream.plan, stream.data, stream.rendering, redraw=stream.redraw)


class _Same:
    """A stream that is equal to another by its fingerprint."""

    def __init__(self, stream: Stream) -> None:
        self.stream, self.fingerprint = stream, stream.fingerprint

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.fingerprint == other.fingerprint


@lru_cache(maxsize=1)
def _last(same: _Same) -> KeptStream:
    return KeptStream(same.stream)
