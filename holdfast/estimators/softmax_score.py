"""SoftmaxScore: mean confidence as the accuracy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor

from holdfast.blocks.norm import paused
from holdfast.estimators._base import ESTIMATORS, Estimator
from holdfast.estimators._observation import Observation
from holdfast.evidence import temperature_from_labels
from holdfast.models.classifier import Classifier
from holdfast.options.ranges import Positive
from holdfast.records import Estimate


@ESTIMATORS.register("softmax_score")
class SoftmaxScore(Estimator):
    """Estimates accuracy as the mean confidence at a temperature.

    AETTA's code uses a constant temperature of 2; `temperature="fitted"` is the temperature scaling of its paper (Guo
    et al., ICML 2017), which needs labelled held-out source data once.
    """

    citation = "Elsahar & Gallé, EMNLP 2019; as in Lee et al., CVPR 2024"
    fitted_temperature: float | None

    def __init__(self, *, temperature: Positive | Literal["fitted"] = 2.0) -> None:
        super().__init__()
        self.temperature = temperature
        self.add_state("fitted_temperature", None, kept=True)

    @property
    def needs(self) -> Literal["nothing", "labels"]:
        """Labels if the temperature is fitted."""
        return "labels" if self.temperature == "fitted" else "nothing"

    @torch.no_grad()
    def fit(self, batches: Sequence[tuple[Tensor, Tensor | None]], model: Classifier) -> None:
        """Fit the temperature to the held-out labels by cross-entropy; without an error among them, not to zero."""
        with paused(model):
            logits = torch.cat([model(inputs) for inputs, _ in batches]).double().numpy(force=True)
        labels = torch.cat([labels for _, labels in batches if labels is not None]).numpy(force=True)
        self.fitted_temperature = temperature_from_labels(logits, labels).temperature

    def estimate(self, seen: Observation) -> Estimate:
        """Return the mean of the largest probability over the batch."""
        temperature = self.temperature if self.fitted_temperature is None else self.fitted_temperature
        assert not isinstance(temperature, str)  # fitted before the first batch
        return Estimate(float((seen.logits / temperature).softmax(1).amax(1).mean()))
