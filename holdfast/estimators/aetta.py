"""AETTA: disagreement under dropout, weighted by how few classes are predicted."""

from __future__ import annotations

from typing import Any

from holdfast.estimators._base import ESTIMATORS
from holdfast.estimators._disagreement import measure_disagreement
from holdfast.estimators._observation import Observation
from holdfast.estimators._under_dropout import UnderDropout
from holdfast.records import Estimate


@ESTIMATORS.register("aetta")
class Aetta(UnderDropout):
    """Estimates the error as smoothed disagreement under dropout, weighted up when few classes are predicted.

    This is the published estimator. At total collapse nothing disagrees, so it reports a high accuracy; and it mistakes
    class-correlated batches for collapse. `points`, `rate`, `masks` and `source_error` are those of `Dropout`.
    """

    error: float | None

    def __init__(self, *, skew_power: float = 3.0, smoothing: float = 0.6, **dropout: Any) -> None:
        super().__init__(**dropout)
        self.skew_power, self.smoothing = skew_power, smoothing  # α
        self.add_state("error", None)

    def estimate(self, seen: Observation) -> Estimate:
        """Return one minus the smoothed error."""
        disagreement = measure_disagreement(seen.logits, self.dropout.logits(seen), self.skew_power)
        # The average starts at the disagreement itself, neither weighted nor clipped, as in the official code.
        previous = disagreement.share if self.error is None else self.error
        self.error = self.smoothing * previous + (1 - self.smoothing) * disagreement.error
        return Estimate(1 - self.error)
