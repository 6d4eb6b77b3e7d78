"""TENT: entropy minimisation on the affine parameters of the normalisation layers."""

from __future__ import annotations

from typing import Any, ClassVar

from torch import Tensor

from holdfast.blocks.objectives import Objective, objective_named
from holdfast.methods._base import METHODS, Method
from holdfast.models.classifier import Classifier
from holdfast.options.ranges import Count

_CIFAR = {"optimizer": "adam", "lr": 1e-3}
_IMAGENET = {"optimizer": "sgd", "lr": 2.5e-4, "momentum": 0.9}


@METHODS.register("tent")
class Tent(Method):
    """Minimise the entropy of the predictions.

    With several `steps` per batch the prediction is that of the last forward pass, as in the official code: it follows
    all updates on this batch except the last. `objective="come"` minimises the entropy of predictions with an explicit
    "unknown" instead (recipe `come_tent`).
    """

    citation = "Wang et al., ICLR 2021"
    use_when = "streams are short or a recovery is used: the simplest method that trains weights"
    fails_when = "streams are long or classes are correlated in time: it collapses to one class and does not recover"
    meanings: ClassVar = {
        "steps": "number of updates on each batch",
        "objective": "entropy, or come: that of predictions with an explicit unknown",
    }
    presets: ClassVar = {
        "cifar10-c": _CIFAR,
        "cifar100-c": _CIFAR,
        "imagenet-c": _IMAGENET,
        "imagenet-c-layer": {**_IMAGENET, "lr": 1e-3},
        "ccc": _IMAGENET,
    }

    def __init__(
        self, model: Classifier, *, steps: Count = 1, objective: Objective = "entropy", **learning: Any
    ) -> None:
        self.objective, self.uncertainty = objective, objective_named(objective)
        super().__init__(model, **learning)
        self.steps = steps
        self.predicts = "before" if steps == 1 else "after"

    def predict(self, inputs: Tensor) -> Tensor:
        """Return the logits of the last forward pass on this batch."""
        for _ in range(self.steps - 1):
            self.update(self.loss(inputs, self.model(inputs)), len(inputs))
        return super().predict(inputs)

    def loss(self, inputs: Tensor, logits: Tensor) -> Tensor:
        """Return the mean entropy of the predictions."""
        return self.uncertainty(logits).mean()
