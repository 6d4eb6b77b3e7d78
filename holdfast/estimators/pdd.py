"""PDD: plain disagreement under dropout."""

from __future__ import annotations

from holdfast.estimators._base import ESTIMATORS
from holdfast.estimators._observation import Observation
from holdfast.estimators._under_dropout import UnderDropout
from holdfast.records import Estimate

__all__ = ["Pdd"]


@ESTIMATORS.register("pdd")
class Pdd(UnderDropout):
    """Takes the share of answers that stay the same under dropout for the accuracy: AETTA with α = 0, not smoothed.

    Beside `aetta` with the same points, rate, masks and seed it costs nothing.
    """

    def estimate(self, seen: Observation) -> Estimate:
        """Return the share of samples and masks for which the answer stays the same."""
        return Estimate(seen.agreement(self.dropout.logits(seen)))
