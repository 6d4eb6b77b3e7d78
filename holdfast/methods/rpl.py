"""RPL: learn from one's own labels with a loss that forgives wrong ones."""

from __future__ import annotations

from typing import Any, ClassVar

from torch import Tensor, nn

from holdfast.blocks.losses import generalised_cross_entropy
from holdfast.methods._base import METHODS, Method
from holdfast.models.classifier import Classifier

__all__ = ["Rpl"]

_CIFAR = {"optimizer": "adam", "lr": 1e-3}
_IMAGENET = {"optimizer": "sgd", "lr": 5e-4, "momentum": 0.9}
_ROBUSTA = {"optimizer": "sgd", "lr": 1e-3, "momentum": 0.0}


@METHODS.register("rpl")
class Rpl(Method):
    """Minimises the generalised cross-entropy to its own labels, renewed with every batch.

    `train_all` trains every parameter instead of the affine ones of the normalisation layers, as the example script of
    the authors does.
    """

    citation = "Rusak et al., TMLR 2022"
    use_when = "streams are short and one domain: a little steadier than TENT"
    fails_when = "streams are long: every sample counts, so wrong labels pile up and it collapses (CCC)"
    presets: ClassVar = {
        "cifar10-c": _CIFAR,
        "cifar100-c": _CIFAR,
        "imagenet-c": _IMAGENET,
        "ccc": _IMAGENET,
        "robusta": _ROBUSTA,
        "robusta-example": {**_ROBUSTA, "lr": 7.5e-4, "train_all": True},
    }

    def __init__(self, model: Classifier, *, exponent: float = 0.8, train_all: bool = False, **learning: Any) -> None:
        self.train_all = train_all
        super().__init__(model, **learning)
        self.exponent = exponent  # q
        if not 0 < exponent <= 1:
            raise ValueError(f"exponent={exponent} is outside (0, 1]; pass 0.8, as published, or another within it")

    def prepare(self, model: Classifier) -> list[nn.Parameter]:
        """Use batch statistics, and train the affine parameters or all of them."""
        affine = super().prepare(model)
        return list(model.parameters()) if self.train_all else affine

    def loss(self, inputs: Tensor, logits: Tensor) -> Tensor:
        """Return the mean of (1 - p^q) / q, p being the probability of the own label."""
        return generalised_cross_entropy(logits, logits.detach().argmax(1), exponent=self.exponent).mean()
