"""COFA: the neighbour averages of UniTTA without its normalisation; no training."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor, nn

from holdfast.blocks.neighbours import Filter, NeighbourAverage, surer
from holdfast.methods._base import METHODS, Method, PredictOnly
from holdfast.models.classifier import Classifier


@METHODS.register("cofa")
class Cofa(Method):
    """Average the features of each sample with those of the previous one, where that makes the prediction more certain.

    `filter="off"` always uses the average; `"official"` and `"fixed"` are equal here.
    """

    citation = "Du et al., 2024 (UniTTA)"
    needs_head = True
    needs_norm = False
    predicts_jointly = True
    passes = "1 forward"
    keeps = "the features of the previous sample"
    use_when = "neighbouring samples mostly share a class, and the network must not change"
    fails_when = "classes are independent in time: averaging unrelated samples is worse than the source"
    meanings: ClassVar = {
        "filter": "off: always use the average; else only where it makes the prediction more certain",
    }

    def __init__(self, model: Classifier, *, filter: Filter = "official", seed: int = 0) -> None:
        self.filter = filter
        super().__init__(model, seed=seed)
        self.neighbours = NeighbourAverage()

    def prepare(self, model: Classifier) -> list[nn.Parameter]:
        """Train nothing."""
        return []

    def predict(self, inputs: Tensor) -> Tensor:
        """Return log-probabilities."""
        logits, features = self.model.forward_with_features(inputs)
        averages = self.model.classify(self.neighbours(features, learn=not self.paused))
        own, shared = logits.log_softmax(1), averages.log_softmax(1)
        return shared if self.filter == "off" else surer(own, shared)

    def export(self) -> nn.Module:
        """Return a module whose first neighbour is the last sample seen."""
        return PredictOnly(self)
