"""Balanced domain normalisation: statistics of each class in each domain, stored only for the pairs that occurred."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from holdfast.blocks.balanced_norm import BalancedStatistics, Groups
from holdfast.blocks.finite import all_finite, if_finite
from holdfast.blocks.norm import BatchNormLayer
from holdfast.blocks.sample_moments import sample_moments
from holdfast.state import Stateful


@dataclass(frozen=True)
class Strata:
    """The strata of a batch, each of a domain and a label, and which samples update them."""

    groups: Groups
    domains: Tensor  # of the groups
    room: int  # rows that are needed to keep them
    slots: int  # domains that are needed, with the reserve


@dataclass(frozen=True)
class DomainOfSamples:
    """The domain of each sample of a batch and, in an updating pass, its stratum."""

    present: Tensor | int  # the domains of the batch, or its only one
    inverse: Tensor  # (batch,) of each sample among them
    strata: Strata | None


@dataclass(frozen=True)
class Regrouping:
    """Which domains and strata are kept when there are too many, and which are merged into those."""

    domains: list[int]  # slots that stay
    rows: list[int]  # rows that stay
    joined: list[int]  # inverse among these that take in another row
    joining: list[int]  # those other rows
    shares: list[float]  # of the samples of both that the other row brings
    row_domains: list[int]  # afterwards, of the rows that stay


class DomainMoments(Stateful):
    """Mean and variance of every domain in one layer, an even mixture of its classes, as differences from the source.

    Strata without samples have the statistics of the source: nothing is stored for them, and they add nothing to the
    three sums from which the moments of a domain are computed. A batch changes the sums by the change of its strata.
    """

    writes_rows = True
    strata: Tensor  # (rows, 2, channels): mean and variance
    sums: Tensor  # (slots, 3, channels): of means, squared means and variances over the strata of a domain

    def __init__(self, source_mean: Tensor, *, num_classes: int) -> None:
        super().__init__()
        self.num_classes = num_classes
        channels, dtype = len(source_mean), torch.promote_types(source_mean.dtype, torch.float32)
        self.add_state("strata", source_mean.new_zeros(0, 2, channels, dtype=dtype))
        # In double precision: they are never recomputed, however long the stream.
        self.add_state("sums", source_mean.new_zeros(2, 3, channels, dtype=torch.float64))

    def of(self, domains: Tensor | int) -> tuple[Tensor, Tensor]:
        """Return mean and variance of these domains, (domains, channels), or of one, (channels,)."""
        total, square, within = self.sums[domains].unbind(-2)
        mean = total / self.num_classes
        between = square.addcmul(total, mean, value=-1) / max(self.num_classes - 1, 1)  # unbiased, as officially
        return mean, between.add_(within, alpha=1 / self.num_classes)

    def learn(self, sample_mean: Tensor, sample_var: Tensor, taught: Strata) -> None:
        """Update the strata of a batch by its samples, unless these are not finite; allocate new strata."""
        self._make_room(taught.room, taught.slots)
        groups, strata = taught.groups, self.strata[taught.groups.rows]
        mean, var = strata.unbind(1)
        shift, gain = groups.changes(sample_mean.to(strata), sample_var.to(strata), mean)
        new = torch.stack([mean + shift, var + torch.addcmul(gain, groups.rate, var, value=-1)], 1)
        new = if_finite(all_finite(new), new, strata)
        self.write_rows(self.strata, groups.rows, new)
        after, before = _terms(torch.stack([new, strata])).unbind()
        # Without the checks of `setattr`, which take longer than the update.
        vars(self).update(sums=self.sums.index_add(0, taught.domains, after - before))

    def regroup(self, plan: Regrouping) -> None:
        """Keep and merge strata as planned, and recompute the sums of the domains."""
        # A layer that was not called in the last pass may not have allocated all of them.
        self._make_room(max([*plan.rows, *plan.joining], default=-1) + 1, max(plan.domains) + 1)
        old, self.strata = self.strata, self.strata[plan.rows]
        if plan.joined:
            share = torch.tensor(plan.shares).view(-1, 1).to(old)
            (mean, var), (other_mean, other_var) = self.strata[plan.joined].unbind(1), old[plan.joining].unbind(1)
            between = share * (1 - share) * (other_mean - mean) ** 2
            self.strata[plan.joined] = torch.stack(
                [mean.lerp(other_mean, share), var.lerp(other_var, share) + between], 1
            )
        domains = torch.tensor(plan.row_domains, dtype=torch.long, device=old.device)
        self.sums = torch.zeros_like(self.sums[plan.domains]).index_add_(0, domains, _terms(self.strata))

    def _make_room(self, rows: int, slots: int) -> None:
        if rows > len(self.strata):  # double the size, so that growing is amortised
            more = self.strata.new_zeros(max(rows, 2 * len(self.strata)) - len(self.strata), *self.strata.shape[1:])
            self.strata = torch.cat([self.strata, more])
        if slots > len(self.sums):
            self.sums = torch.cat([self.sums, self.sums.new_zeros(slots - len(self.sums), *self.sums.shape[1:])])


def _terms(strata: Tensor) -> Tensor:
    """Return the terms that each stratum, (..., 2, channels), adds to the sums of its domain, (..., 3, channels)."""
    mean, var = strata.double().unbind(-2)
    return torch.stack([mean, mean * mean, var], -2)


class DomainStatistics(BalancedStatistics):
    """Balanced statistics of all domains and, in a pass with placed samples, of each domain separately.

    The layer of UniTTA (Du et al., 2024), with two differences: `capped` steps, without which a stratum with more than
    2 / `class_momentum` samples in a batch diverges, and the layer's own epsilon in every pass, as in the paper.
    """

    def __init__(self, layer: BatchNormLayer, *, num_classes: int, capped: bool = True, **options: float) -> None:
        super().__init__(layer, num_classes=num_classes, **options)
        self.capped = capped
        self.domains = DomainMoments(self.source_mean, num_classes=num_classes)
        self.placed: DomainOfSamples | None = None
        self.watched = False
        self.seen: tuple[Tensor, Tensor] | None = None  # moments of the samples in the last pass without inverse

    def adapted(self, features: Tensor) -> Tensor:
        """Normalise (batch, channels, ...), after updating the statistics if the batch has labels or inverse."""
        if self.placed is None:
            self.watch(features)
            return super().adapted(features)
        if self.placed.strata is not None and not self.paused:
            mean, var = sample_moments(features)
            mean, var = mean - self.source_mean, var - self.source_var
            self.domains.learn(mean, var, self.placed.strata)
        mean, var = (part.to(self.source_mean) for part in self.domains.of(self.placed.present))
        mean, var = self.source_mean + mean, self.source_var + var
        var = var.clamp_min_(0)  # steps without a cap can make it negative
        if mean.dim() == 1:
            return self.normalise(features, mean, var)
        return self.normalise_each(features, mean[self.placed.inverse], var[self.placed.inverse])

    def fixed_statistics(self, features: Tensor | None) -> None:
        """Return None: each sample is normalised by itself."""
        return

    def assign_domains(self) -> None:
        """Let this layer be the one whose moments say the domain of each sample."""
        self.watched = True

    def divide(self, placed: DomainOfSamples | None) -> None:
        """Normalise each sample of the next passes by its domain; None: all by the same statistics."""
        vars(self).update(placed=placed)

    def watch(self, features: Tensor) -> None:
        """Keep the moments of the samples if this layer assigns the domains."""
        if self.watched:
            self.seen = sample_moments(features)

    def domain_moments(self, domains: Tensor | int) -> tuple[Tensor, Tensor]:
        """Return mean and variance of these domains, (domains, channels), or of one, (channels,)."""
        mean, var = self.domains.of(domains)
        return self.source_mean + mean, (self.source_var + var).clamp_min_(0)
