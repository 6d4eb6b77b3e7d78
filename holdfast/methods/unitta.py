"""UniTTA: domains normalised apart, and neighbours in the stream answered together."""

from __future__ import annotations

from typing import Any, ClassVar

from torch import Tensor, nn

from holdfast.blocks.neighbours import NeighbourAverage, surer
from holdfast.methods._base import METHODS
from holdfast.methods._by_domain import ByDomain
from holdfast.models.classifier import Classifier

__all__ = ["Unitta"]


@METHODS.register("unitta")
class Unitta(ByDomain):
    """Normalises by domains that it finds itself (BDN), and averages features with the sample before (COFA).

    Official options: `filter="official"` compares with probabilities that went through a softmax twice, and so hardly
    ever does anything; `"fixed"` lets the surer answer win, `"off"` has none. `distance="kl"` is the paper's. A cell of
    many samples moves by all of them at most (`step="capped"`); the `"official"` step has no such bound and can
    diverge. `overflow="prune"` is the official limit on domains; merging the closest two is ours.

    Ours: `prediction_layer` finds itself, the first normalisation layer of the middle stage. In networks without
    BatchNorm the features that GroupNorm and LayerNorm layers receive are aligned by domain, over positions or tokens,
    to what all domains have in common; expect little of it.
    """

    citation = "Du et al., 2024"
    use_when = "neighbours in the stream are mostly of one class, whatever the domains do"
    fails_when = "neighbours are unrelated: choose 'bdn', or 'unitta_auto', which finds out"
    presets: ClassVar = {
        "cifar10-c": {"class_momentum": 0.01, "agnostic_share": 0.0},
        "cifar100-c": {"class_momentum": 0.05, "agnostic_share": 0.1},
        "imagenet-c": {"class_momentum": 0.5, "agnostic_share": 0.5},
    }

    def __init__(self, model: Classifier, **options: Any) -> None:
        super().__init__(model, **options)
        self.neighbours = nn.ModuleList(NeighbourAverage() for _ in range(3))  # of each pass its own

    def prepare(self, model: Classifier) -> list[nn.Parameter]:
        """Prepare the layers; features are what the last layer receives, so there must be one."""
        if model.head is None:
            raise ValueError("no last linear layer was found; pass its name, head='...', or choose 'bdn'")
        return super().prepare(model)

    def classify_pass(self, inputs: Tensor, turn: int) -> Tensor:
        """Return the log-probabilities of one pass, next to the sample before where that is surer."""
        logits, features = self.model.forward_with_features(inputs)
        averages = self.model.classify(self.neighbours[turn](features, learn=not self.paused))
        return surer(logits.log_softmax(1), averages.log_softmax(1))

    def choose(self, together: Tensor, apart: Tensor) -> Tensor:
        """Return the filtered answer; the official filter sees one of the two through a second softmax."""
        return super().choose(together.exp().log_softmax(1) if self.filter == "official" else together, apart)
