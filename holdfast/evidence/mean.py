"""A running mean with bounds from bets."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from holdfast.evidence.bets import SumBets

__all__ = ["BoundedMean", "Interval"]


@dataclass(frozen=True)
class Interval:
    """A mean with bounds that hold at all times at once, with the stated confidence."""

    value: float  # nan before the first observation
    low: float
    high: float
    confidence: float
    samples: int  # over which the mean is taken

    def __str__(self) -> str:
        return f"{self.value:.3f} [{self.low:.3f}, {self.high:.3f}] over {self.samples} samples"


class BoundedMean:
    """Keep the sums behind an interval: how many samples, their total, and the total of their centres."""

    def __init__(self, *, largest: float, stakes: int) -> None:
        self.bets = SumBets(largest=largest, stakes=stakes)
        self.samples, self.total, self.centres = 0, 0.0, 0.0

    @property
    def state(self) -> dict[str, Any]:
        """The numbers that change, as a new dictionary; assign an earlier one to return to it exactly."""
        return {"samples": self.samples, "total": self.total, "centres": self.centres, **self.bets.state}

    @state.setter
    def state(self, earlier: Mapping[str, Any]) -> None:
        if earlier.keys() != self.state.keys():
            raise ValueError(f"the state of a mean has {sorted(self.state)}, got {sorted(earlier)}")
        self.bets.state = {name: earlier[name] for name in ("up", "down")}
        self.samples, self.total, self.centres = int(earlier["samples"]), earlier["total"], earlier["centres"]

    def count(self, samples: int, total: float, centres: float) -> None:
        """Count samples whose deviations the bets were told."""
        self.samples, self.total, self.centres = self.samples + samples, self.total + total, self.centres + centres

    def interval(self, confidence: float, lowest: float, highest: float) -> Interval:
        """Return the interval so far, within what is possible."""
        if not self.samples:
            return Interval(math.nan, lowest, highest, confidence, 0)
        low, high = (
            max(lowest, min(highest, (self.centres + sum_) / self.samples)) for sum_ in self.bets.bounds(confidence)
        )
        value = max(low, min(high, self.total / self.samples))  # weighted labels may overshoot
        return Interval(value, low, high, confidence, self.samples)
