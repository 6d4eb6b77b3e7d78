"""SrcValid: accuracy of the adapted network on held-out source data."""

from __future__ import annotations

from holdfast.blocks.norm import paused
from holdfast.estimators._base import ESTIMATORS
from holdfast.estimators._held_out import OnHeldOut
from holdfast.estimators._observation import Observation
from holdfast.options.ranges import Count
from holdfast.records import Estimate


@ESTIMATORS.register("source_validation")
class SourceValidation(OnHeldOut):
    """Estimates the accuracy on a batch as that of the adapted network on held-out source data, in one pass.

    AETTA's code uses augmented training images here; we use held-out data, as the paper says.
    """

    citation = "Lee et al., CVPR 2024"

    def __init__(self, *, samples: Count = 1000) -> None:
        super().__init__()
        self.samples = samples

    def passes(self, batch_size: int) -> float:
        """Return the held-out samples for each sample of a batch."""
        return self.samples / batch_size

    def estimate(self, seen: Observation) -> Estimate:
        """Return the accuracy of the network as it is now on the held-out data."""
        with paused(seen.model):
            return Estimate(float((seen.model(self.inputs).argmax(1) == self.labels).double().mean()))
