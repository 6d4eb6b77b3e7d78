"""UniTTA, with neighbour averaging switched on when the labels of neighbouring samples correlate."""

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
from holdfast.options.ranges import Count


@METHODS.register("unitta_auto")
class UnittaAuto(ByDomain):
    """Run UniTTA while the labels of neighbouring samples correlate, and BDN otherwise.

    Ours: published UniTTA is worse than BDN when classes are independent in time, because it averages unrelated
    samples. The correlation is measured on predicted labels before averaging: Cohen's κ of the agreement between
    neighbours, with the agreement of samples 17 to 64 apart as chance level, over about the last `memory_samples`.
    Averaging is on while κ minus two standard errors exceeds `min_correlation`. Other options are those of `unitta`;
    the official filter is that of the active method.
    """

    predicts_jointly = True
    citation = "after Du et al., 2024 (UniTTA)"
    needs_head = True
    use_when = "it is unknown, or changes, whether neighbouring samples share a class"
    fails_when = (
        "runs of one class exceed 64 samples and predicted labels are poor: a run then looks like the bias of a domain"
    )
    meanings: ClassVar = {
        "min_correlation": "correlation of neighbouring labels above which features are averaged",
        "memory_samples": "number of recent samples that it is measured on",
    }
    presets: ClassVar = {
        "cifar10-c": {"class_momentum": 0.01, "agnostic_share": 0.0},
        "cifar100-c": {"class_momentum": 0.05, "agnostic_share": 0.1},
        "imagenet-c": {"class_momentum": 0.5, "agnostic_share": 0.5},
    }

    def __init__(
        self, model: Classifier, *, min_correlation: float = 0.05, memory_samples: Count = 1024, **options: Any
    ) -> None:
        self.min_correlation, self.memory_samples = min_correlation, memory_samples
        super().__init__(model, **options)
        self.neighbours = nn.ModuleList(NeighbourAverage() for _ in range(3))
        self.runs = ClassRuns(memory_samples=memory_samples)

    @property
    def correlated(self) -> bool:
        """Whether neighbour averaging is currently on."""
        return self.runs.sure_correlation > self.min_correlation

    def gauges(self) -> Mapping[str, float]:
        """Return the number of domains, and the lower bound on the correlation of neighbouring labels."""
        return {**super().gauges(), "correlation": self.runs.sure_correlation}

    def classify_pass(self, inputs: Tensor, turn: int) -> Tensor:
        """Return the log-probabilities of one pass; the first updates the correlation."""
        logits, features = self.model.forward_with_features(inputs)
        averages = self.neighbours[turn](features, learn=not self.paused)
        if turn == 0:
            finite, *labels = torch.cat([torch.isfinite(logits).all()[None], logits.argmax(1)]).tolist()
            if finite:
                self.runs.observe(torch.tensor(labels, device="cpu"))
        own = logits.log_softmax(1)
        return surer(own, self.model.classify(averages).log_softmax(1)) if self.correlated else own

    def choose(self, together: Tensor, apart: Tensor) -> Tensor:
        """Return the filtered prediction, with the filter of UniTTA or of BDN."""
        twice = self.filter == "official" and self.correlated
        return super().choose(together.exp().log_softmax(1) if twice else together, apart)
