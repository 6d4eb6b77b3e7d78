"""CPL: self-training on the conjugate pseudo-labels of the training loss."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from holdfast.blocks.losses import conjugate_loss
from holdfast.methods._base import METHODS, Method
from holdfast.models.classifier import Classifier
from holdfast.options.ranges import NotNegative, Positive
from holdfast.records import Update

_SGD = {"optimizer": "sgd", "lr": 1e-3, "momentum": 0.9, "nesterov": True}


@METHODS.register("cpl")
class Cpl(Method):
    """Minimise the training loss at its conjugate pseudo-labels, which is the entropy for cross-entropy training.

    `poly_epsilon` is the ε of the PolyLoss that the source was trained with, 0 for cross-entropy. The official code
    predicts after the update with a second forward pass (`predicts="after"`); benchmarks predict before it, the default
    here.
    """

    citation = "Goyal et al., NeurIPS 2022"
    passes = "1 forward, 1 backward; 1 more forward to predict after the update"
    use_when = "the source was trained with PolyLoss, and streams are short"
    fails_when = "streams are long or ε differs from the source's: it trains on every sample and collapses (CCC)"
    meanings: ClassVar = {
        "poly_epsilon": "ε of the PolyLoss that the source was trained with; 0: cross-entropy",
        "temperature": "divides the logits in the loss",
        "predicts": "before the update, or after it with a second forward pass",
    }
    presets: ClassVar = {
        "cifar10-c": _SGD,
        "cifar100-c": _SGD,
        "imagenet-c": _SGD,
        "cifar10-c-poly": {**_SGD, "poly_epsilon": 6.0},
        "cifar100-c-poly": {**_SGD, "poly_epsilon": 6.0},
        "imagenet-c-poly": {**_SGD, "poly_epsilon": 8.0},
        # ε = 8 on a network trained with cross-entropy: unlike the CPL paper, but what the CCC table was made with.
        "ccc": {**_SGD, "nesterov": False, "poly_epsilon": 8.0},
    }

    def __init__(
        self,
        model: Classifier,
        *,
        poly_epsilon: NotNegative = 0.0,
        temperature: Positive = 1.0,
        predicts: Literal["before", "after"] = "before",
        **learning: Any,
    ) -> None:
        super().__init__(model, **learning)
        self.poly_epsilon, self.temperature, self.predicts = poly_epsilon, temperature, predicts
        self._update = Update()

    def predict(self, inputs: Tensor) -> Tensor:
        """Predict with the current network, or update it on this batch first."""
        if self.predicts == "after" and not self.paused:
            with torch.enable_grad():
                self._update = self.update(self.loss(inputs, self.model(inputs)), len(inputs))
            with torch.no_grad():
                return super().predict(inputs)
        return super().predict(inputs)

    def adapt(self, inputs: Tensor, logits: Tensor | None = None) -> Update:
        """Adapt to one batch, unless `predict` has done so."""
        if self.predicts == "before":
            return super().adapt(inputs, logits)
        self.batches += 1
        return self._update

    def loss(self, inputs: Tensor, logits: Tensor) -> Tensor:
        """Return the mean conjugate loss of the tempered logits."""
        return conjugate_loss(logits / self.temperature, poly_epsilon=self.poly_epsilon).mean()
