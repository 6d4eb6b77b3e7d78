"""Balanced BN: the normalisation of TRIBE on its own."""

from __future__ import annotations

from functools import partial
from typing import ClassVar

from torch import Tensor, nn

from holdfast.blocks.balanced_norm import BalancedStatistics, given_labels
from holdfast.blocks.norm import replace_batch_norm
from holdfast.methods._base import METHODS, Method
from holdfast.models.classifier import Classifier
from holdfast.records import Update

__all__ = ["BalancedBatchNorm"]


@METHODS.register("balanced_bn")
class BalancedBatchNorm(Method):
    """Normalises with the even mixture of class statistics, which follow the test samples by their predicted labels.

    `agnostic_share=1` moves all classes alike: what the UniTTA tables call Robust BN.
    """

    citation = "Su et al., AAAI 2024 (TRIBE)"
    needs_batch_norm = True
    passes = "2 forward"
    keeps = "mean and variance of every class in every BatchNorm layer"
    use_when = "classes come in bursts or some are rare, and nothing may be trained"
    fails_when = "predicted labels are mostly wrong, or domains alternate within a batch: there is one mixture for all"
    presets: ClassVar = {
        "cifar10-c": {"class_momentum": 0.01, "agnostic_share": 0.0},
        "cifar100-c": {"class_momentum": 0.05, "agnostic_share": 0.1},
        "imagenet-c": {"class_momentum": 0.5, "agnostic_share": 0.5},
    }

    def __init__(
        self, model: Classifier, *, class_momentum: float = 0.01, agnostic_share: float = 0.0, seed: int = 0
    ) -> None:
        self.class_momentum, self.agnostic_share = class_momentum, agnostic_share  # η, γ
        super().__init__(model, seed=seed)

    def prepare(self, model: Classifier) -> list[nn.Parameter]:
        """Replace the statistics of every BatchNorm layer and train nothing."""
        stand_in = partial(
            BalancedStatistics,
            num_classes=model.num_classes,
            class_momentum=self.class_momentum,
            agnostic_share=self.agnostic_share,
        )
        replace_batch_norm(model, stand_in)
        return []

    def adapt(self, inputs: Tensor, logits: Tensor | None = None) -> Update:
        """Show the batch to the layers once more, with its answers as labels."""
        answers = self.predict(inputs) if logits is None else logits
        with given_labels(self.model, answers.argmax(1)):
            self.model(inputs)
        return super().adapt(inputs, logits)
