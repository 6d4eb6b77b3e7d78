"""UniTTA: separate statistics for each domain, and features averaged with the previous sample."""

from __future__ import annotations

from typing import Any, ClassVar

from torch import Tensor, nn

from holdfast.blocks.neighbours import NeighbourAverage, surer
from holdfast.methods._base import METHODS
from holdfast.methods._by_domain import ByDomain
from holdfast.models.classifier import Classifier


@METHODS.register("unitta")
class Unitta(ByDomain):
    """Normalise by automatically detected domains (BDN), and average features with the previous sample (COFA).

    `filter="official"` compares with probabilities that went through softmax twice, as in the official code, and so has
    almost no effect; `"fixed"` takes the more confident prediction; `"off"` disables the filter. `distance="kl"` is the
    paper's distance. `step="capped"` never moves the statistics of a domain and class past the mean of the batch's
    samples; `step="official"` can overshoot and diverge. `overflow="prune"` is the official limit on domains; merging
    the closest two is ours.

    Ours: `prediction_layer`, which detects domains, defaults to the first normalisation layer of the middle stage. In
    networks without BatchNorm, the inputs of GroupNorm and LayerNorm layers are aligned from the statistics of their
    domain to those of all domains; expect only small gains.
    """

    predicts_jointly = True
    citation = "Du et al., 2024"
    needs_head = True
    use_when = "neighbouring samples mostly share a class, for any order of domains"
    fails_when = "the classes of neighbouring samples are unrelated: choose 'bdn', or 'unitta_auto', which detects it"
    presets: ClassVar = {
        "cifar10-c": {"class_momentum": 0.01, "agnostic_share": 0.0},
        "cifar100-c": {"class_momentum": 0.05, "agnostic_share": 0.1},
        "imagenet-c": {"class_momentum": 0.5, "agnostic_share": 0.5},
    }

    def __init__(self, model: Classifier, **options: Any) -> None:
        super().__init__(model, **options)
        self.neighbours = nn.ModuleList(NeighbourAverage() for _ in range(3))  # one per pass

    def classify_pass(self, inputs: Tensor, turn: int) -> Tensor:
        """Return the log-probabilities of one pass, averaged with the previous sample where that is more confident."""
        logits, features = self.model.forward_with_features(inputs)
        averages = self.model.classify(self.neighbours[turn](features, learn=not self.paused))
        return surer(logits.log_softmax(1), averages.log_softmax(1))

    def choose(self, together: Tensor, apart: Tensor) -> Tensor:
        """Return the filtered prediction; the official filter applies a second softmax to one of the two."""
        return super().choose(together.exp().log_softmax(1) if self.filter == "official" else together, apart)
