"""RPL: self-training on pseudo-labels with a loss that is robust to wrong ones."""

from __future__ import annotations

from typing import Any, ClassVar

from torch import Tensor, nn

from holdfast.blocks.losses import generalised_cross_entropy
from holdfast.methods._base import METHODS, Method
from holdfast.models.classifier import Classifier
from holdfast.options.ranges import PositiveShare

_CIFAR = {"optimizer": "adam", "lr": 1e-3}
_IMAGENET = {"optimizer": "sgd", "lr": 5e-4, "momentum": 0.9}
_ROBUSTA = {"optimizer": "sgd", "lr": 1e-3, "momentum": 0.0}


@METHODS.register("rpl")
class Rpl(Method):
    """Minimise the generalised cross-entropy to the predicted labels of each batch.

    `train_all` trains every parameter instead of only the affine ones of the normalisation layers, as the authors'
    example script does.
    """

    citation = "Rusak et al., TMLR 2022"
    use_when = "streams are short and of one domain: slightly more stable than TENT"
    fails_when = "streams are long: it trains on every sample, errors accumulate and it collapses (CCC)"
    meanings: ClassVar = {
        "exponent": "of the generalised cross-entropy (q): towards 0 the cross-entropy, 1 the absolute error",
        "train_all": "whether all weights are trained, or affine ones only",
    }
    presets: ClassVar = {
        "cifar10-c": _CIFAR,
        "cifar100-c": _CIFAR,
        "imagenet-c": _IMAGENET,
        "ccc": _IMAGENET,
        "robusta": _ROBUSTA,
        "robusta-example": {**_ROBUSTA, "lr": 7.5e-4, "train_all": True},
    }

    def __init__(
        self, model: Classifier, *, exponent: PositiveShare = 0.8, train_all: bool = False, **learning: Any
    ) -> None:
        self.train_all = train_all
        super().__init__(model, **learning)
        self.exponent = exponent  # q

    def prepare(self, model: Classifier) -> list[nn.Parameter]:
        """Use batch statistics, and train the affine parameters or all parameters."""
        affine = super().prepare(model)
        return list(model.parameters()) if self.train_all else affine

    def loss(self, inputs: Tensor, logits: Tensor) -> Tensor:
        """Return the mean of (1 - p^q) / q, where p is the probability of the predicted label."""
        return generalised_cross_entropy(logits, logits.detach().argmax(1), exponent=self.exponent).mean()
