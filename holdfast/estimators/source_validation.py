"""SrcValid: accuracy on what the network was made for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor

from holdfast.blocks.norm import paused
from holdfast.estimators._base import ESTIMATORS, Estimator
from holdfast.estimators._observation import Observation
from holdfast.models.classifier import Classifier
from holdfast.records import Estimate

__all__ = ["SourceValidation"]


@ESTIMATORS.register("source_validation")
class SourceValidation(Estimator):
    """Takes the accuracy of the adapted network on held-out source data, all in one pass, for that on the batch.

    AETTA's code uses images of the training set and its augmentation here; the paper says held-out, and so do we.
    """

    citation = "Lee et al., CVPR 2024"
    inputs: Tensor
    labels: Tensor

    def __init__(self, *, samples: int = 1000) -> None:
        super().__init__()
        if samples < 1:
            raise ValueError(f"samples={samples} leaves nothing to be right about; pass at least 1")
        self.samples = samples

    @property
    def needs(self) -> Literal["labels"]:
        """Labels of the source, and no others ever."""
        return "labels"

    def fit(self, batches: Sequence[tuple[Tensor, Tensor | None]], model: Classifier) -> None:
        """Keep the first samples; they are not saved with the state, and are given again before it is loaded."""
        inputs = torch.cat([inputs for inputs, _ in batches])[: self.samples]
        labels = torch.cat([labels for _, labels in batches if labels is not None])[: self.samples]
        self.register_buffer("inputs", inputs.to(model.device), persistent=False)
        self.register_buffer("labels", labels.to(model.device), persistent=False)

    def estimate(self, seen: Observation) -> Estimate:
        """Return the share of held-out labels that the network gives at this moment."""
        with paused(seen.model):
            return Estimate(float((seen.model(self.inputs).argmax(1) == self.labels).double().mean()))
