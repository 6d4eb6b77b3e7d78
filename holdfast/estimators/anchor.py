"""The anchor: a frozen copy of the source that keeps up with the inputs, and never with the answers."""

from __future__ import annotations

import copy
from collections.abc import Sequence

import torch
from torch import Tensor

from holdfast.blocks.norm import BatchNorm, NormLayer, replace_batch_norm
from holdfast.blocks.recent_norm import RecentStatistics
from holdfast.estimators.temperature import fit_temperature
from holdfast.models.classifier import Classifier
from holdfast.state import Stateful

__all__ = ["Anchor"]


class Anchor(Stateful):
    """Source weights, and for BatchNorm the mean of source statistics and those of the last `memory_samples` samples.

    Source statistics fail under a shift, those of a batch when its classes are few; halfway between, over ten batches,
    the copy is usually a better classifier than with either. Nothing here is learnt from an answer, so that nothing
    collapses with it.
    """

    fitted_temperature: float | None

    def __init__(self, *, source_share: float, memory_samples: int, temperature: float) -> None:
        super().__init__()
        self.source_share, self.memory_samples, self.temperature = source_share, memory_samples, temperature
        self.add_state("fitted_temperature", None, kept=True)
        self.network: Classifier | None = None

    def prepare(self, source: Classifier) -> None:
        """Copy the source."""
        self.network = copy.deepcopy(source).eval().requires_grad_(False)
        self.network.samples_forwarded = 0
        replace_batch_norm(self.network, self._stand_in)
        self.network.to(memory_format=torch.channels_last)  # pictures go through a copy of our own a third faster

    def logits(self, inputs: Tensor) -> Tensor:
        """Answer a batch at the anchor's temperature, and keep up with its statistics."""
        return self._answer(inputs) / (self.fitted_temperature or self.temperature)

    def fit(self, batches: Sequence[tuple[Tensor, Tensor | None]]) -> None:
        """Fit the temperature to held-out source data, where they have labels."""
        labelled = [(inputs, labels) for inputs, labels in batches if labels is not None]
        if labelled:
            logits = torch.cat([self._answer(inputs) for inputs, _ in labelled])
            self.fitted_temperature = fit_temperature(logits, torch.cat([labels for _, labels in labelled]))
            self.reset_state()

    def _answer(self, inputs: Tensor) -> Tensor:
        if self.network is None:
            raise ValueError("the anchor has not seen the source network; build the estimator through holdfast.adapt")
        logits: Tensor = self.network(inputs)
        return logits

    def _stand_in(self, layer: BatchNorm) -> BatchNorm | NormLayer:
        if layer.running_mean is None:  # it has always used the batch
            return layer
        memory = self.memory_samples
        return RecentStatistics(
            layer, source_share=self.source_share, memory_samples=memory, prior_samples=memory // 10
        )
