"""What a stream is made from before anything is loaded: which sample, in which domain, at which severity, and when."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.records import Domain, Picks

__all__ = ["Plan"]


class Plan(ABC):
    """A seeded order of picks that can be read from anywhere, whatever was read before."""

    domains: tuple[Domain, ...]
    length: int | None  # None: endless
    seed: int
    step_samples: int = 1  # exported shards hold whole steps of this many samples

    @abstractmethod
    def picks(self, start: int, stop: int) -> Picks:
        """Return the picks at positions `start` to `stop`, the last one left out."""

    @abstractmethod
    def spec(self) -> dict[str, Any]:
        """Return, as plain JSON, everything but the data and the seed that determines the picks."""

    def protocol(self) -> dict[str, Any]:
        """Return the spec without what the seed has decided: runs with other seeds may stand in one table."""
        return self.spec()

    def check_span(self, start: int, stop: int) -> None:
        """Raise unless positions `start` to `stop` are in the stream."""
        if not 0 <= start <= stop or (self.length is not None and stop > self.length):
            latest = "" if self.length is None else f" and at most {self.length}"
            raise ValueError(f"positions {start} to {stop} are not in the stream; pass 0 or more{latest}, in order")

    def expected(self, positions: NDArray[np.int64]) -> NDArray[np.float64] | None:
        """Return the accuracy between 0 and 1 that a calibrated plan expects of the frozen model at these positions."""
        return None

    def next_break(self, position: int) -> int | None:
        """Return where a batch that begins at `position` must end at the latest, None where nothing ends it."""
        return None

    def starts_episode(self, position: int) -> bool:
        """Say whether the protocol starts over at `position`: whoever adapts goes back to the source first."""
        return False
