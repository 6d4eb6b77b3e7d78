"""Balanced BN: the normalisation of TRIBE without its training."""

from __future__ import annotations

from functools import partial
from typing import ClassVar

from torch import Tensor, nn

from holdfast.blocks.balanced_norm import BalancedStatistics, given_labels
from holdfast.blocks.wrapping import replace_batch_norm
from holdfast.methods._base import METHODS, Method
from holdfast.models.classifier import Classifier
from holdfast.options.ranges import Share
from holdfast.records import Update


@METHODS.register("balanced_bn")
class BalancedBatchNorm(Method):
    """Normalise with a uniform mixture of class statistics, updated with the predicted labels of the test samples.

    `agnostic_share=1` updates all classes with every sample; the UniTTA tables call this Robust BN.
    """

    citation = "Su et al., AAAI 2024 (TRIBE)"
    needs_batch_norm = True
    passes = "2 forward"
    keeps = "mean and variance of every class in every BatchNorm layer"
    use_when = "classes are correlated in time or imbalanced, and no weights may be trained"
    fails_when = (
        "the domain changes every few batches: its statistics move slowly; or most predicted labels are wrong, or a "
        "batch mixes domains, because all domains share one mixture"
    )
    meanings: ClassVar = {
        "class_momentum": "share of a new sample in the statistics of its class (η)",
        "agnostic_share": "part of each update that goes to all classes alike (γ)",
    }
    presets: ClassVar = {
        "cifar10-c": {"class_momentum": 0.01, "agnostic_share": 0.0},
        "cifar100-c": {"class_momentum": 0.05, "agnostic_share": 0.1},
        "imagenet-c": {"class_momentum": 0.5, "agnostic_share": 0.5},
    }

    def __init__(
        self, model: Classifier, *, class_momentum: Share = 0.01, agnostic_share: Share = 0.0, seed: int = 0
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
        """Update the class statistics with a second pass, using the predictions as labels."""
        predictions = self.predict(inputs) if logits is None else logits
        with given_labels(self.model, predictions.argmax(1)):
            self.model(inputs)
        return super().adapt(inputs, logits)
