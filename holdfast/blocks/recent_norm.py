"""BatchNorm statistics that blend the source's with those of recent samples, robust to class-correlated batches."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from holdfast.blocks.finite import all_finite, if_finite
from holdfast.blocks.norm import BatchNorm, NormLayer
from holdfast.state import Stateful

__all__ = ["RecentMoments", "RecentStatistics", "Weights"]

TINY = 1e-12
LARGE = 0.05  # divergence that other class proportions hardly reach
EXPLAINED = 0.9, 0.75  # κ is 0 where balancing leaves 90 % of the divergence, and 1 where it leaves 75 % or less


@dataclass(frozen=True)
class Weights:
    """How much each sample of a batch counts for statistics: as it comes, and with its classes balanced."""

    values: Tensor  # (2, batch)

    @cached_property
    def counts(self) -> Tensor:
        """For how many samples the batch counts in each of the two ways, (2,)."""
        return self.values.sum(1)

    @cached_property
    def shares(self) -> Tensor:
        """The weights as shares of the batch, (2, batch, 1)."""
        return (self.values / self.counts.clamp_min(TINY)[:, None])[..., None]


class RecentMoments(Stateful):
    """Mean and variance of about the last `memory_samples` samples; the source counts for `prior_samples` of them."""

    mean: Tensor | None
    var: Tensor | None
    samples: int | Tensor | None  # that have been counted, at most the memory; None before the first

    def __init__(self, prior_samples: int) -> None:
        super().__init__()
        self.prior_samples, self.memory_samples = prior_samples, prior_samples  # the latter is set from outside
        self.add_state("mean", None)
        self.add_state("var", None)
        self.add_state("samples", None)

    def add(self, new: tuple[Tensor, Tensor], count: int | Tensor, source: tuple[Tensor, Tensor]) -> None:
        """Add the mean and variance of a batch with the weight of `count` samples; ignore those that are not finite."""
        mean, var = source if self.mean is None or self.var is None else (self.mean, self.var)
        new_mean, new_var = new
        finite = all_finite(new_mean, new_var)
        known = self.prior_samples if self.samples is None else self.samples
        share: float | Tensor
        if isinstance(count, Tensor) or isinstance(known, Tensor):  # sums of weights: the host need not know them
            count = count if isinstance(count, Tensor) else new_mean.new_full((), count)
            self.samples = torch.minimum(known + count, count.clamp_min(self.memory_samples))
            share = (count / self.samples.clamp_min(TINY)).to(new_mean)
        else:
            self.samples = min(known + count, max(self.memory_samples, count))
            share = count / self.samples
        # The distance between the means adds to the variance; for single images it is a large part of it.
        spread = var.lerp(new_var, share) + share * (1 - share) * (new_mean - mean).square()
        self.var, self.mean = if_finite(finite, spread, var), if_finite(finite, mean.lerp(new_mean, share), mean)


class RecentStatistics(NormLayer):
    """Normalise with λ · source + (1 − λ) · recent statistics; the recent ones include this batch, unless paused.

    Other class proportions move statistics as other inputs do. With `weights`, the recent statistics go over to those
    with balanced classes, as far as balancing explains their divergence from the source: κ follows the ratio of both
    divergences. Under a shift of the inputs balancing explains nothing, and all samples count the same.

    >>> from torch import nn
    >>> layer = RecentStatistics(nn.BatchNorm1d(1), source_share=0.5, prior_samples=0)
    >>> round(float(layer(torch.tensor([[2.0], [2.0]]))[0]), 3)  # (2 − 1) / √½
    1.414
    """

    def __init__(self, layer: BatchNorm, *, source_share: float, prior_samples: int) -> None:
        super().__init__(layer)
        self.source_share = source_share  # λ
        self.recent, self.balanced = RecentMoments(prior_samples), RecentMoments(prior_samples)
        self.weights: Weights | None = None  # of the samples of the next batch; set from outside
        self.trust: float | Tensor = 1.0  # in the classes by which they are balanced; likewise

    @torch.no_grad()
    def adapted(self, features: Tensor) -> Tensor:
        """Normalise (batch, channels, ...)."""
        if not self.paused:
            self._follow(features)
        return self.normalise(features, *self.fixed_statistics(features))

    def _follow(self, features: Tensor) -> None:
        source, weights = (self.source_mean, self.source_var), self.weights
        means, squares = moments_about(self.source_mean, features)
        if weights is None or weights.values.shape[1] != len(features):  # a network may fold other axes into the batch
            new = _moments(means.mean(0), squares.mean(0), self.source_mean)
            for part in (self.recent,) if weights is None else (self.recent, self.balanced):
                part.add(new, len(features), source)
            return
        for part, count, shares in zip((self.recent, self.balanced), weights.counts, weights.shares, strict=True):
            shares = shares.to(means)
            part.add(_moments((shares * means).sum(0), (shares * squares).sum(0), self.source_mean), count, source)

    def fixed_statistics(self, features: Tensor | None) -> tuple[Tensor, Tensor]:
        """Return the stored blend."""
        mean, var = self._recent_moments()
        return mean.lerp(self.source_mean, self.source_share), var.lerp(self.source_var, self.source_share)

    def _recent_moments(self) -> tuple[Tensor, Tensor]:
        mean, var = self.recent.mean, self.recent.var
        if mean is None or var is None:
            return self.source_mean, self.source_var
        if self.balanced.mean is None or self.balanced.var is None:
            return mean, var
        share = self.trust * explained(*self.divergences())
        spread = share * (1 - share) * (mean - self.balanced.mean).square()
        return mean.lerp(self.balanced.mean, share), var.lerp(self.balanced.var, share) + spread

    def divergences(self) -> tuple[Tensor, Tensor]:
        """Return the divergences from the source of the recent statistics as they come and with balanced classes."""
        plain = self._divergence(self.recent.mean, self.recent.var)
        if self.balanced.mean is None:
            return plain, plain
        return plain, self._divergence(self.balanced.mean, self.balanced.var)

    def shift(self) -> Tensor:
        """Return the Kullback-Leibler divergence of recent from source statistics, averaged over channels, ()."""
        return self._divergence(*self._recent_moments())

    def _divergence(self, mean: Tensor | None, var: Tensor | None) -> Tensor:
        if mean is None or var is None:
            return self.source_mean.new_zeros(())
        ratio = (var + self.eps) / (self.source_var + self.eps)
        distance = (mean - self.source_mean).square() / (self.source_var + self.eps)
        return 0.5 * (distance + ratio - 1 - ratio.log()).mean()


def moments_about(centre: Tensor, features: Tensor) -> tuple[Tensor, Tensor]:
    """Return the mean distance of each sample from a centre, and the mean of its square, each (batch, channels).

    About a centre near the mean, the squares lose no precision.

    >>> [moment.tolist() for moment in moments_about(torch.tensor([1.0]), torch.tensor([[[2.0, 4.0]]]))]
    [[[2.0]], [[5.0]]]
    """
    features = features.to(torch.promote_types(features.dtype, torch.float32))  # squares overflow half precision
    places = list(range(2, features.dim()))
    distances = features - centre.reshape(-1, *[1] * len(places))
    return (distances.mean(places), distances.square().mean(places)) if places else (distances, distances.square())


def _moments(mean: Tensor, square: Tensor, centre: Tensor) -> tuple[Tensor, Tensor]:
    return (mean + centre).to(centre), (square - mean.square()).clamp_min(0).to(centre)


def explained(plain: Tensor, balanced: Tensor) -> Tensor:
    """Return how far other class proportions explain a divergence, between 0 and 1; `balanced` is what is left of it.

    Proportions alone move statistics little. A large divergence is a shift, even if the samples of one class share it.

    >>> [round(float(explained(torch.tensor(0.01), torch.tensor(left))), 2) for left in (0.01, 0.00825, 0.005)]
    [0.0, 0.48, 0.96]
    >>> round(float(explained(torch.tensor(0.5), torch.tensor(0.1))), 2)
    0.01
    """
    none, all_of_it = EXPLAINED
    left = balanced / plain.clamp_min(torch.finfo(plain.dtype).tiny)
    return ((none - left) / (none - all_of_it)).clamp(0, 1) / (1 + (plain / LARGE).square())
