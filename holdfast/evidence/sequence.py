"""Confidence sequences for a mean that may drift: intervals that hold at all times at once."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from holdfast.evidence.bets import SumBets
from holdfast.evidence.checks import numbers_within

__all__ = ["ConfidenceSequence", "Interval"]

STAKES = 10


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


class ConfidenceSequence:
    """Bound the running average of the conditional means of observations in [`lowest`, `highest`].

    With probability `confidence` all intervals, one after each observation, hold at once. Nothing is assumed of the
    distribution; the mean may drift, and the interval is for its average so far. Wealth is bet on sums with constant
    stakes: as the empirical-Bernstein bound of Howard et al. (Annals of Statistics 2021, Theorem 4), with log(1 + λx)
    itself in place of its lower bound λx − ψ(λ)x², which makes it narrower (`results/evidence.json`).

    >>> sequence = ConfidenceSequence(confidence=0.95)
    >>> sequence.observe([1.0, 0.0] * 500)
    >>> print(sequence.interval())
    0.500 [0.446, 0.554] over 1000 samples
    """

    def __init__(self, *, confidence: float = 0.95, lowest: float = 0.0, highest: float = 1.0) -> None:
        if not 0 < confidence < 1:
            raise ValueError(f"confidence must be between 0 and 1, got {confidence}")
        if not lowest < highest:
            raise ValueError(f"lowest must be below highest, got {lowest} and {highest}")
        self.confidence, self.lowest, self.highest = confidence, lowest, highest
        self._bets = SumBets(largest=0.9 / (highest - lowest), stakes=STAKES)
        self._count, self._total, self._centres = 0, 0.0, 0.0

    @property
    def state(self) -> dict[str, float]:
        """The numbers that change, as a new dictionary; assign an earlier one to return to it exactly."""
        return {"count": self._count, "total": self._total, "centres": self._centres, **self._bets.state}

    @state.setter
    def state(self, earlier: Mapping[str, float]) -> None:
        bets = dict(earlier)
        try:
            count, total, centres = (bets.pop(name) for name in ("count", "total", "centres"))
        except KeyError as error:
            raise ValueError(f"the state of a confidence sequence has {error}, got {sorted(earlier)}") from error
        self._bets.state = bets
        self._count, self._total, self._centres = int(count), total, centres

    def observe(self, values: ArrayLike) -> None:
        """Add one observation, or several in order."""
        found = numbers_within(values, self.lowest, self.highest, "an observation")
        counts = self._count + np.arange(1, len(found) + 1)
        before = self._total + np.cumsum(found) - found
        centres = (before + (self.lowest + self.highest) / 2) / counts  # each known before its observation
        self._bets.add(found - centres)
        self._count += len(found)
        self._total += float(found.sum())
        self._centres += float(centres.sum())

    def interval(self) -> Interval:
        """Return the interval after the observations so far; it is [`lowest`, `highest`] before the first."""
        if not self._count:
            return Interval(math.nan, self.lowest, self.highest, self.confidence, 0)
        low, high = self._bets.bounds(self.confidence)
        return Interval(
            self._total / self._count,
            max(self.lowest, (self._centres + low) / self._count),
            min(self.highest, (self._centres + high) / self._count),
            self.confidence,
            self._count,
        )
