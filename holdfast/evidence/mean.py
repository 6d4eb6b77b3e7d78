"""A running mean with bounds from bets."""

from __future__ import annotations

import math
from dataclasses import dataclass

from holdfast.evidence.bets import SumBets
from holdfast.state import Stateful


@dataclass(frozen=True)
class Interval:
    """A mean with bounds that hold at all times at once, with the stated confidence."""

    value: float  # nan before the first observation
    low: float  # the lower end
    high: float  # the upper end
    confidence: float  # that the bounds hold at all times
    samples: int  # over which the mean is taken

    def __str__(self) -> str:
        return f"{self.value:.3f} [{self.low:.3f}, {self.high:.3f}] over {self.samples} samples"


class BoundedMean(Stateful):
    """Keep the sums behind an interval: how many samples, their total, and the total of their centres."""

    samples: int
    total: float
    centres: float

    def __init__(self, *, largest: float, stakes: int) -> None:
        super().__init__()
        self.bets = SumBets(largest=largest, stakes=stakes)
        self.add_state("samples", 0)
        self.add_state("total", 0.0)
        self.add_state("centres", 0.0)

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
