"""The anchor: a copy of the source that follows the statistics of the inputs and is never trained."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor, nn

from holdfast.blocks.norm import BatchNorm
from holdfast.blocks.recent_norm import RecentStatistics
from holdfast.blocks.wrapping import replace_batch_norm
from holdfast.estimators._proportions import reweigh, variety
from holdfast.estimators._temperature import fit_temperature
from holdfast.models.classifier import Classifier
from holdfast.models.probing import random_pair
from holdfast.state import Stateful

__all__ = ["Anchor"]

LONGEST_MEMORY = 10  # windows


class Anchor(Stateful):
    """Source weights with BatchNorm statistics halfway between those of the source and those of recent inputs.

    Source statistics fail under a shift, and batch statistics fail when a batch holds few classes; the mean of the two
    classifies better than either. The statistics reach back further when the last `window` samples hold fewer classes,
    so that all classes are covered. Nothing here is trained on a prediction, so nothing collapses with the network.
    """

    fitted_temperature: float | None
    memory_samples: int
    recent: Tensor | None

    def __init__(self, *, temperature: float, source_share: float, window: int) -> None:
        super().__init__()
        self.temperature, self.source_share, self.window = temperature, source_share, window
        self.add_state("fitted_temperature", None, kept=True)
        self.add_state("memory_samples", window)
        self.add_state("recent", None)  # probabilities for the last samples, (samples, classes)
        self.network: Classifier | None = None

    @property
    def now_temperature(self) -> float:
        """The fitted temperature if there is one, else the given one."""
        return self.fitted_temperature or self.temperature

    def prepare(self, source: Classifier) -> None:
        """Copy the source."""
        network = copy.deepcopy(source).eval().requires_grad_(False)
        replace_batch_norm(network, self._stand_in)
        self.network = network
        self._quicken()
        network.samples_forwarded = 0

    def probabilities(self, inputs: Tensor) -> Tensor | None:
        """Return reweighed probabilities for the last samples, this batch included; None if any is not finite."""
        logits = self._logits(inputs) / self.now_temperature
        if not torch.isfinite(logits).all():
            return None
        now = logits.softmax(1)
        self.recent = latest(self.recent, now, self.window)
        weighed = reweigh(self.recent)
        scarcity = min(weighed.shape) / variety(weighed.mean(0))  # 1: as many classes as there can be
        self.memory_samples = round(self.window * min(max(1.0, scarcity**2), LONGEST_MEMORY))
        return weighed

    def fit(self, batches: Sequence[tuple[Tensor, Tensor | None]]) -> None:
        """Fit the temperature to held-out source data that have labels."""
        labelled = [(inputs, labels) for inputs, labels in batches if labels is not None]
        if labelled:
            logits = torch.cat([self._logits(inputs) for inputs, _ in labelled])
            self.fitted_temperature = fit_temperature(logits, torch.cat([labels for _, labels in labelled]))
            self.reset_state()

    def _logits(self, inputs: Tensor) -> Tensor:
        if self.network is None:
            raise ValueError("the anchor has no source network; pass the estimator to holdfast.adapt")
        for layer in self.network.modules():
            if isinstance(layer, RecentStatistics):
                layer.recent.memory_samples = self.memory_samples
        logits: Tensor = self.network(inputs)
        return logits

    @torch.no_grad()
    def _quicken(self) -> None:
        """Store the channels of images last, which is a third faster, unless the network needs another order."""
        assert self.network is not None
        module = self.network.module
        pair = random_pair(module, self.network.input_spec.shape)
        module.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        try:
            self.network(pair)
        except RuntimeError:  # it flattens its feature maps with view()
            module.to(memory_format=torch.contiguous_format)  # type: ignore[call-overload]
        self.reset_state()

    def _stand_in(self, layer: BatchNorm) -> nn.Module:
        if layer.running_mean is None:  # it always uses batch statistics
            return cast(nn.Module, layer)
        return RecentStatistics(layer, source_share=self.source_share, prior_samples=self.window)


def latest(before: Tensor | None, now: Tensor, window: int) -> Tensor:
    """Append a batch to earlier rows and return the last `window` of them, or the whole batch if that is more.

    >>> latest(torch.tensor([1, 2, 3]), torch.tensor([4]), 3), latest(torch.tensor([1]), torch.tensor([2, 3]), 1)
    (tensor([2, 3, 4]), tensor([2, 3]))
    """
    return now if before is None else torch.cat([before, now])[-max(window, len(now)) :]
