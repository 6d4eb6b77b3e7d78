"""UniTTA that listens first: neighbours are answered together only in streams where they belong together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from holdfast.blocks.class_runs import ClassRuns
from holdfast.blocks.neighbours import NeighbourAverage, surer
from holdfast.methods._base import METHODS
from holdfast.methods._by_domain import ByDomain
from holdfast.models.classifier import Classifier

__all__ = ["UnittaAuto"]


@METHODS.register("unitta_auto")
class UnittaAuto(ByDomain):
    """UniTTA where neighbours in the stream agree more often than samples further apart, and BDN where they do not.

    Ours: published UniTTA loses to BDN whenever classes come independently, because it averages unrelated neighbours.
    Predicted labels, before any averaging, tell which kind of stream it is: neighbours are averaged as long as their
    agreement exceeds that of samples 17 to 64 apart by `min_correlation` of what it could (Cohen's κ), by two standard
    errors, over about the last `memory_samples`. Other options are those of `unitta`; the official filter is that of
    whichever is at work.
    """

    citation = "after Du et al., 2024 (UniTTA)"
    use_when = "it is not known whether neighbours in the stream are of one class, or it changes"
    fails_when = "runs of one class are longer than 64 samples and the labels bad: they then look like a domain's bias"
    presets: ClassVar = {
        "cifar10-c": {"class_momentum": 0.01, "agnostic_share": 0.0},
        "cifar100-c": {"class_momentum": 0.05, "agnostic_share": 0.1},
        "imagenet-c": {"class_momentum": 0.5, "agnostic_share": 0.5},
    }

    def __init__(
        self, model: Classifier, *, min_correlation: float = 0.05, memory_samples: int = 1024, **options: Any
    ) -> None:
        self.min_correlation, self.memory_samples = min_correlation, memory_samples
        super().__init__(model, **options)
        self.neighbours = nn.ModuleList(NeighbourAverage() for _ in range(3))
        self.runs = ClassRuns(memory_samples=memory_samples)

    def prepare(self, model: Classifier) -> list[nn.Parameter]:
        """Prepare the layers; features are what the last layer receives, so there must be one."""
        if model.head is None:
            raise ValueError("no last linear layer was found; pass its name, head='...', or choose 'bdn'")
        return super().prepare(model)

    @property
    def correlated(self) -> bool:
        """Whether neighbours are being answered together at this point of the stream."""
        return self.runs.sure_correlation > self.min_correlation

    def gauges(self) -> Mapping[str, float]:
        """Return how many domains there are, and by how much of what it could neighbours' agreement exceeds chance."""
        return {**super().gauges(), "correlation": self.runs.sure_correlation}

    def classify_pass(self, inputs: Tensor, turn: int) -> Tensor:
        """Return the log-probabilities of one pass; the first tells what kind of stream it is."""
        logits, features = self.model.forward_with_features(inputs)
        averages = self.neighbours[turn](features, learn=not self.paused)
        if turn == 0 and torch.isfinite(logits).all():
            self.runs.observe(logits.argmax(1))
        own = logits.log_softmax(1)
        return surer(own, self.model.classify(averages).log_softmax(1)) if self.correlated else own

    def choose(self, together: Tensor, apart: Tensor) -> Tensor:
        """Return the filtered answer, by the filter of UniTTA or of BDN."""
        twice = self.filter == "official" and self.correlated
        return super().choose(together.exp().log_softmax(1) if twice else together, apart)
