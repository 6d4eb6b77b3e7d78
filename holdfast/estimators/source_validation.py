"""SrcValid: accuracy of the adapted network on held-out source data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from torch import Tensor

from holdfast.blocks.norm import paused
from holdfast.estimators._base import ESTIMATORS, Estimator
from holdfast.estimators._held_out import first_held_out
from holdfast.estimators._observation import Observation
from holdfast.models.classifier import Classifier
from holdfast.options.ranges import Count
from holdfast.records import Estimate


@ESTIMATORS.register("source_validation")
class SourceValidation(Estimator):
    """Estimates the accuracy on a batch as that of the adapted network on held-out source data, in one pass.

    AETTA's code uses augmented training images here; we use held-out data, as the paper says.
    """

    citation = "Lee et al., CVPR 2024"
    inputs: Tensor
    labels: Tensor

    def __init__(self, *, samples: Count = 1000) -> None:
        super().__init__()
        self.samples = samples

    @property
    def needs(self) -> Literal["labels"]:
        """Labels of held-out source data."""
        return "labels"

    def fit(self, batches: Sequence[tuple[Tensor, Tensor | None]], model: Classifier) -> None:
        """Keep the first samples; they are not part of a saved state and must be given again before loading it."""
        inputs, labels = first_held_out(batches, self.samples, model.device)
        self.register_buffer("inputs", inputs, persistent=False)
        self.register_buffer("labels", labels, persistent=False)

    def passes(self, batch_size: int) -> float:
        """Return the held-out samples for each sample of a batch."""
        return self.samples / batch_size

    def estimate(self, seen: Observation) -> Estimate:
        """Return the accuracy of the network as it is now on the held-out data."""
        with paused(seen.model):
            return Estimate(float((seen.model(self.inputs).argmax(1) == self.labels).double().mean()))
