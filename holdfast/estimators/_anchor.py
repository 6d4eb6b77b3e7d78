"""The anchor: a frozen copy of the source that keeps up with the inputs, and never with the answers."""

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
    """Source weights, and for BatchNorm the mean of source statistics and those of the inputs of late.

    Source statistics fail under a shift, and those of a batch when its classes are few; halfway between them a copy of
    the source classifies better than with either. How far back the statistics reach depends on how many classes the
    last `window` samples had: far enough for all of them to have come. Nothing here is learnt from an answer, so that
    nothing collapses with it.
    """

    fitted_temperature: float | None
    memory_samples: int
    recent: Tensor | None

    def __init__(self, *, temperature: float, source_share: float, window: int) -> None:
        super().__init__()
        self.temperature, self.source_share, self.window = temperature, source_share, window
        self.add_state("fitted_temperature", None, kept=True)
        self.add_state("memory_samples", window)
        self.add_state("recent", None)  # probabilities of the last samples, (samples, classes)
        self.network: Classifier | None = None

    @property
    def now_temperature(self) -> float:
        """The fitted temperature, or the given one."""
        return self.fitted_temperature or self.temperature

    def prepare(self, source: Classifier) -> None:
        """Copy the source."""
        network = copy.deepcopy(source).eval().requires_grad_(False)
        replace_batch_norm(network, self._stand_in)
        self.network = network
        self._quicken()
        network.samples_forwarded = 0

    def probabilities(self, inputs: Tensor) -> Tensor | None:
        """Return those of the last samples, this batch included, reweighed; None where they are not finite."""
        logits = self._logits(inputs) / self.now_temperature
        if not torch.isfinite(logits).all():
            return None
        now = logits.softmax(1)
        self.recent = latest(self.recent, now, self.window)
        weighed = reweigh(self.recent)
        scarcity = min(weighed.shape) / variety(weighed.mean(0))  # 1 where there are as many classes as there can be
        self.memory_samples = round(self.window * min(max(1.0, scarcity**2), LONGEST_MEMORY))
        return weighed

    def fit(self, batches: Sequence[tuple[Tensor, Tensor | None]]) -> None:
        """Fit the temperature to held-out source data, where they have labels."""
        labelled = [(inputs, labels) for inputs, labels in batches if labels is not None]
        if labelled:
            logits = torch.cat([self._logits(inputs) for inputs, _ in labelled])
            self.fitted_temperature = fit_temperature(logits, torch.cat([labels for _, labels in labelled]))
            self.reset_state()

    def _logits(self, inputs: Tensor) -> Tensor:
        if self.network is None:
            raise ValueError("the anchor has not seen the source network; build the estimator through holdfast.adapt")
        for layer in self.network.modules():
            if isinstance(layer, RecentStatistics):
                layer.recent.memory_samples = self.memory_samples
        logits: Tensor = self.network(inputs)
        return logits

    @torch.no_grad()
    def _quicken(self) -> None:
        """Keep the channels of pictures last, which is a third quicker, unless the network relies on another order."""
        assert self.network is not None
        module = self.network.module
        pair = random_pair(module, self.network.input_spec.shape)
        module.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        try:
            self.network(pair)
        except RuntimeError:  # it looks at maps as one long row
            module.to(memory_format=torch.contiguous_format)  # type: ignore[call-overload]
        self.reset_state()

    def _stand_in(self, layer: BatchNorm) -> nn.Module:
        if layer.running_mean is None:  # it has always used the batch
            return cast(nn.Module, layer)
        return RecentStatistics(layer, source_share=self.source_share, prior_samples=self.window)


def latest(before: Tensor | None, now: Tensor, window: int) -> Tensor:
    """Return a batch after what came before it: the last rows, or the whole batch where that is more.

    >>> latest(torch.tensor([1, 2, 3]), torch.tensor([4]), 3), latest(torch.tensor([1]), torch.tensor([2, 3]), 1)
    (tensor([2, 3, 4]), tensor([2, 3]))
    """
    return now if before is None else torch.cat([before, now])[-max(window, len(now)) :]
