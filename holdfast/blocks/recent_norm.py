"""BatchNorm statistics that blend the source's with those of recent samples, robust to class-correlated batches."""

from __future__ import annotations

import torch
from torch import Tensor

from holdfast.blocks.finite import all_finite, if_finite
from holdfast.blocks.norm import BatchNorm, NormLayer, batch_moments
from holdfast.state import Stateful

__all__ = ["RecentMoments", "RecentStatistics"]


class RecentMoments(Stateful):
    """Mean and variance of about the last `memory_samples` samples; the source counts for `prior_samples` of them."""

    mean: Tensor | None
    var: Tensor | None
    samples: int

    def __init__(self, prior_samples: int) -> None:
        super().__init__()
        self.memory_samples = prior_samples  # set from outside
        self.add_state("mean", None)
        self.add_state("var", None)
        self.add_state("samples", prior_samples)

    def follow(self, features: Tensor, source_mean: Tensor, source_var: Tensor) -> None:
        """Add a batch, (batch, channels, ...), unless it is not finite."""
        mean, var = (source_mean, source_var) if self.mean is None or self.var is None else (self.mean, self.var)
        new_mean, new_var = batch_moments(features, unbiased=False)
        finite = all_finite(new_mean, new_var)
        self.samples = min(self.samples + len(features), max(self.memory_samples, len(features)))
        share = len(features) / self.samples
        # The distance between the means adds to the variance; for single images it is a large part of it.
        spread = var.lerp(new_var, share) + share * (1 - share) * (new_mean - mean).square()
        self.var, self.mean = if_finite(finite, spread, var), if_finite(finite, mean.lerp(new_mean, share), mean)


class RecentStatistics(NormLayer):
    """Normalise with λ · source + (1 − λ) · recent statistics; the recent ones include this batch, unless paused.

    >>> from torch import nn
    >>> layer = RecentStatistics(nn.BatchNorm1d(1), source_share=0.5, prior_samples=0)
    >>> round(float(layer(torch.tensor([[2.0], [2.0]]))[0]), 3)  # (2 − 1) / √½
    1.414
    """

    def __init__(self, layer: BatchNorm, *, source_share: float, prior_samples: int) -> None:
        super().__init__(layer)
        self.source_share = source_share  # λ
        self.recent = RecentMoments(prior_samples)

    @torch.no_grad()
    def adapted(self, features: Tensor) -> Tensor:
        """Normalise (batch, channels, ...)."""
        if not self.paused:
            self.recent.follow(features, self.source_mean, self.source_var)
        return self.normalise(features, *self.fixed_statistics(features))

    def fixed_statistics(self, features: Tensor | None) -> tuple[Tensor, Tensor]:
        """Return the stored blend."""
        mean, var = self.recent.mean, self.recent.var
        if mean is None or var is None:
            return self.source_mean, self.source_var
        return mean.lerp(self.source_mean, self.source_share), var.lerp(self.source_var, self.source_share)

    def shift(self) -> Tensor:
        """Return the Kullback-Leibler divergence of recent from source statistics, averaged over channels, ()."""
        mean, var = self.recent.mean, self.recent.var
        if mean is None or var is None:
            return self.source_mean.new_zeros(())
        ratio = (var + self.eps) / (self.source_var + self.eps)
        distance = (mean - self.source_mean).square() / (self.source_var + self.eps)
        return 0.5 * (distance + ratio - 1 - ratio.log()).mean()
