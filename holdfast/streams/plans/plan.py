"""The plan of a stream: which sample comes when, in which domain and at which severity; loads no data."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.records import Domain, Picks


class Plan(ABC):
    """A seeded order of picks that can be read from any position."""

    domains: tuple[Domain, ...]
    length: int | None  # None: endless
    seed: int
    step_samples: int = 1  # exported shards hold whole steps of this many samples

    @abstractmethod
    def picks(self, start: int, stop: int) -> Picks:
        """Return the picks at positions `start` to `stop`, exclusive."""

    @abstractmethod
    def spec(self) -> dict[str, Any]:
        """Return everything that determines the picks, except the data and the seed, as plain JSON."""

    def protocol(self) -> dict[str, Any]:
        """Return the spec without what the seed decides; runs of equal protocol share a table."""
        return self.spec()

    def check_span(self, start: int, stop: int) -> None:
        """Raise if positions `start` to `stop` are not in the stream."""
        if not 0 <= start <= stop or (self.length is not None and stop > self.length):
            latest = "" if self.length is None else f" and at most {self.length}"
            raise ValueError(f"positions must be at least 0{latest}, in order, got {start} to {stop}")

    def expected(self, positions: NDArray[np.int64]) -> NDArray[np.float64] | None:
        """Return the accuracy, between 0 and 1, that a calibrated plan expects of the source model; None: unknown."""
        return None

    def next_break(self, position: int) -> int | None:
        """Return the position where a batch that begins at `position` must end; None: nowhere."""
        return None

    def starts_episode(self, position: int) -> bool:
        """Tell whether an episode starts at `position`: the model is reset to the source first."""
        return False
