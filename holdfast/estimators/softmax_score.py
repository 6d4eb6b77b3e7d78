"""Confidence as accuracy."""

from __future__ import annotations

from torch import Tensor

from holdfast.estimators.base import ESTIMATORS, Estimator
from holdfast.models.classifier import Classifier

__all__ = ["SoftmaxScore"]


@ESTIMATORS.register("softmax_score")
class SoftmaxScore(Estimator):
    """Takes the mean confidence, at a temperature, for the accuracy."""

    citation = "Elsahar & Gallé, EMNLP 2019; as in Lee et al., CVPR 2024"

    def __init__(self, *, temperature: float = 2.0) -> None:
        super().__init__()
        self.temperature = temperature

    def estimate(self, inputs: Tensor, logits: Tensor, model: Classifier) -> float:
        """Return the mean over the batch of the largest probability."""
        return float((logits / self.temperature).softmax(1).amax(1).mean())
