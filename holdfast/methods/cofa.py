"""COFA: the neighbour averages of UniTTA on their own; nothing is ever trained."""

from __future__ import annotations

from torch import Tensor, nn

from holdfast.blocks.neighbours import Filter, NeighbourAverage, check_filter, surer
from holdfast.methods._base import METHODS, Method, PredictOnly
from holdfast.models.classifier import Classifier

__all__ = ["Cofa"]


@METHODS.register("cofa")
class Cofa(Method):
    """Classifies the mean of two features, a sample's own and that of the sample before it, where that is surer.

    `filter="off"` always takes the mean; `"official"` and `"fixed"` are the same here.
    """

    citation = "Du et al., 2024 (UniTTA)"
    passes = "1 forward"
    keeps = "the features of the last sample"
    use_when = "neighbours in a stream are mostly of one class, and the network must not change"
    fails_when = "classes come mixed: unrelated neighbours are averaged, which is worse than the source model"

    def __init__(self, model: Classifier, *, filter: Filter = "official", seed: int = 0) -> None:
        self.filter = check_filter(filter)
        super().__init__(model, seed=seed)
        self.neighbours = NeighbourAverage()

    def prepare(self, model: Classifier) -> list[nn.Parameter]:
        """Leave every layer as it is and train nothing; features are what the last layer receives."""
        if model.head is None:
            raise ValueError("no last linear layer was found; pass its name, head='...', or choose 'source'")
        return []

    def predict(self, inputs: Tensor) -> Tensor:
        """Return log-probabilities."""
        logits, features = self.model.forward_with_features(inputs)
        averages = self.model.classify(self.neighbours(features, learn=not self.paused))
        own, shared = logits.log_softmax(1), averages.log_softmax(1)
        return shared if self.filter == "off" else surer(own, shared)

    def export(self) -> nn.Module:
        """Return a module that answers next to the last sample met."""
        return PredictOnly(self)
