"""PDD: plain disagreement under dropout."""

from __future__ import annotations

from holdfast.estimators._base import ESTIMATORS
from holdfast.estimators._observation import Observation
from holdfast.estimators._under_dropout import UnderDropout
from holdfast.records import Estimate


@ESTIMATORS.register("pdd")
class Pdd(UnderDropout):
    """Estimates accuracy as the share of predictions that dropout does not change: AETTA with α = 0, not smoothed.

    It costs nothing beside `aetta` with the same points, rate, masks and seed.
    """

    def estimate(self, seen: Observation) -> Estimate:
        """Return the share of samples and masks whose prediction stays the same."""
        return Estimate(seen.agreement(self.dropout.logits(seen)))
