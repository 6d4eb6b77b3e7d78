"""Confidence sequences for a mean that may drift: intervals that hold at all times at once."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from holdfast.evidence.checks import numbers_within
from holdfast.evidence.mean import BoundedMean, Interval
from holdfast.state import Stateful

STAKES = 10  # enough for a million observations


class ConfidenceSequence(Stateful):
    """Bound the running average of the conditional means of observations in [`lowest`, `highest`].

    With probability `confidence` all intervals, one after each observation, hold at once. Nothing is assumed of the
    distribution; the mean may drift, and the interval is for its average so far. Wealth is bet on sums with constant
    stakes: as the empirical-Bernstein bound of Howard et al. (Annals of Statistics 2021, Theorem 4), with log(1 + λx)
    itself in place of its lower bound λx − ψ(λ)x², which makes it narrower (`results/evidence.json`).

    Args:
        confidence: probability that all intervals hold at once.
        lowest: smallest possible observation.
        highest: largest possible observation.

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
        super().__init__()
        self.confidence, self.lowest, self.highest = confidence, lowest, highest
        self.mean = BoundedMean(largest=0.9 / (highest - lowest), stakes=STAKES)

    def observe(self, values: ArrayLike) -> None:
        """Add one observation, or several in order."""
        observed = numbers_within(values, self.lowest, self.highest, "an observation")
        before = self.mean.total + np.cumsum(observed) - observed
        counts = self.mean.samples + np.arange(1, len(observed) + 1)
        centres = (before + (self.lowest + self.highest) / 2) / counts  # each known before its observation
        self.mean.bets.add(observed - centres)
        self.mean.count(len(observed), float(observed.sum()), float(centres.sum()))

    def interval(self) -> Interval:
        """Return the interval after the observations so far; it is [`lowest`, `highest`] before the first."""
        return self.mean.interval(self.confidence, self.lowest, self.highest)
