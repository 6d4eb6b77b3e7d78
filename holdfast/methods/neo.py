"""NEO: subtract the mean of the test features before the last layer."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from holdfast.methods._base import METHODS
from holdfast.methods._centring import Centring
from holdfast.models.classifier import Classifier
from holdfast.options.ranges import Share


@METHODS.register("neo")
class Neo(Centring):
    """Subtract the mean of all test features seen so far before the last layer.

    The logits are W (z − μ) + b, where μ is the mean over all samples up to and including this batch; there is nothing
    to tune. `centre_momentum` is the authors' variant for changing shifts (0.1): μ ← (1 − α) μ + α · (mean of the
    batch), starting from zero.
    """

    citation = "Murphy et al., ICLR 2026"
    keeps = "one vector: the mean of the features"
    predicts = "after"
    use_when = "there is no budget beyond inference, especially for vision transformers"
    fails_when = "classes are correlated in time or source features are not centred: the mean is then not the shift"
    meanings: ClassVar = {
        "centre_momentum": "share of a new batch in the mean; None: that of all samples so far",
    }
    samples: int

    def __init__(self, model: Classifier, *, centre_momentum: Share | None = None, seed: int = 0) -> None:
        self.centre_momentum = centre_momentum
        super().__init__(model, seed=seed)
        self.add_state("samples", 0)

    def predict(self, inputs: Tensor) -> Tensor:
        """Update the centre with this batch, then classify the centred features."""
        logits, features = self.model.forward_with_features(inputs)
        if not self.paused and torch.isfinite(logits).all():
            self.samples += len(features)
            share = len(features) / self.samples if self.centre_momentum is None else self.centre_momentum
            self.centre = self.centre.lerp(features.mean(0), share)
        return self.model.classify(features - self.centre)
