"""Taps: restate activations so that recent inputs have the moments of the source's own data."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from holdfast.blocks.finite import all_finite, if_finite, is_finite
from holdfast.blocks.norm import BatchNormLayer, NormLayer, batch_moments
from holdfast.blocks.sample_moments import sample_moments
from holdfast.state import Stateful

__all__ = [
    "Basis",
    "Following",
    "Moments",
    "OutputTap",
    "Tap",
    "beyond",
    "fits",
    "moments_by_sample",
    "shift_of",
    "source_moments",
]

TINY = 1e-12
RELATIVE_EPS = 1e-5  # of the mean variance of an output: channels without variance are not amplified
ROUNDING = 1e-10  # of the mean square of an output: constant outputs differ by that from sample to sample
KNOWN_FROM = 2  # source samples of a class, from which it has moments of its own


@dataclass(frozen=True)
class Moments:
    """Mean and variance of each channel over source samples, and how far those of each class are from them."""

    mean: Tensor  # (channels,)
    var: Tensor  # (channels,)
    class_means: Tensor  # (classes, channels), minus `mean`
    class_squares: Tensor  # (classes, channels), mean squared distances from `mean`, minus `var`

    def of_classes(self, proportions: Tensor) -> tuple[Tensor, Tensor]:
        """Return the distance from the mean, and the variance, of source samples in other class proportions.

        >>> moments = Moments(torch.zeros(1), torch.ones(1), torch.tensor([[-0.6], [0.6]]), torch.zeros(2, 1))
        >>> [[round(float(part), 2) for part in moments.of_classes(torch.tensor(q))] for q in ([0.5, 0.5], [1.0, 0.0])]
        [[0.0, 1.0], [-0.6, 0.64]]
        """
        distance = proportions @ self.class_means
        return distance, (self.var + proportions @ self.class_squares - distance.square()).clamp_min(0)


def source_moments(means: Tensor, variances: Tensor, predicted: Tensor, classes: Tensor) -> Moments:
    """Return the moments of source samples from those of each sample, (samples, channels), and predicted classes.

    >>> values = torch.tensor([[1.0], [3.0], [5.0], [7.0]])
    >>> found = source_moments(values, torch.zeros(4, 1), torch.tensor([0, 0, 1, 1]), torch.tensor([0, 1]))
    >>> found.mean.tolist(), found.var.tolist(), found.class_means.tolist(), found.class_squares.tolist()
    ([4.0], [5.0], [[-2.0], [2.0]], [[0.0], [0.0]])
    """
    means, variances = means.double(), variances.double()
    mean = means.mean(0)
    squares = variances + (means - mean).square()
    var = squares.mean(0)
    of_class = (predicted[None] == classes[:, None]).double()
    of_class = of_class / of_class.sum(1, keepdim=True).clamp_min(1)
    found = mean, var, of_class @ (means - mean), of_class @ (squares - var)
    return Moments(*(part.float() for part in found))


def moments_by_sample(features: Tensor, axis: int) -> tuple[Tensor, Tensor]:
    """Return mean and biased variance of each channel of each sample, (batch, channels); `axis` holds the channels.

    >>> moments_by_sample(torch.tensor([[[1.0, 5.0], [3.0, 5.0]]]), axis=-1)
    (tensor([[2., 5.]]), tensor([[1.0000, 0.0000]]))
    """
    features = features.detach().to(torch.promote_types(features.dtype, torch.float32))
    return sample_moments(features if axis == 1 else features.movedim(axis, 1))


def moments_of(features: Tensor, axis: int, counted: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Return mean and variance of each channel of a batch, (channels,), of the samples that count.

    >>> batch, some = torch.tensor([[1.0], [3.0], [8.0]]), torch.tensor([1.0, 1.0, 0.0])
    >>> [[round(float(part), 3) for part in moments_of(batch, 1, counted)] for counted in (None, some)]
    [[4.0, 8.667], [2.0, 1.0]]
    """
    if counted is None or counted.shape[0] != features.shape[0]:  # a network may fold other axes into the batch
        features = features.detach().to(torch.promote_types(features.dtype, torch.float32))
        return batch_moments(features if axis == 1 else features.movedim(axis, -1).flatten(0, -2), unbiased=False)
    means, variances = moments_by_sample(features, axis)
    weights = (counted / counted.sum().clamp_min(TINY)).to(means)
    mean = weights @ means
    return mean, weights @ (variances + (means - mean).square())


class Following(Stateful):
    """How the taps of one network follow its inputs: how much a batch counts, and which classes are in it.

    Recent moments are those of about the last `window` samples, the source's own before the first. Other class
    proportions move moments as other inputs do, so the source's predictions say what proportions are to explain.

    >>> following = Following(window=64)
    >>> following.count(torch.ones(64), memory=64); float(following.share)
    1.0
    >>> following.reset_state(); following.count(torch.ones(64), memory=128); float(following.share)
    0.5
    """

    samples: Tensor | None
    mix: Tensor | None
    classes: Tensor | None
    class_shares: Tensor | None

    def __init__(self, *, window: int) -> None:
        super().__init__()
        self.window = window
        self.add_state("samples", None)  # counted so far, at most the memory; the source's own count as a window
        self.add_state("mix", None)  # recent proportions of `classes`, (classes,)
        self.add_state("classes", None, kept=True)  # that have source moments of their own, (classes,)
        self.add_state("class_shares", None, kept=True)  # their shares of the source samples
        self.share: Tensor | float = 0.0  # of the batch in hand in the recent moments
        self.between: Tensor | float = 0.0  # share · (1 − share), of the distance between the means in the variance
        self.counted: Tensor | None = None  # which of its samples count, (batch,); None: all
        self.checked = True  # whether each tap leaves out moments that are not finite

    @staticmethod
    def known(predicted: Tensor) -> tuple[Tensor, Tensor]:
        """Return the classes among predictions for source samples that can have moments of their own, and their shares.

        >>> Following.known(torch.tensor([4, 4, 2, 4]))
        (tensor([4]), tensor([0.7500]))
        """
        classes, counts = predicted.unique(return_counts=True)
        enough = counts >= KNOWN_FROM
        return classes[enough], (counts[enough] / len(predicted)).float()

    def know(self, classes: Tensor, shares: Tensor) -> None:
        """Take the classes that have moments of their own, and their shares of the source samples."""
        self.classes, self.class_shares = classes, shares

    def count(
        self,
        counted: Tensor,
        memory: int | Tensor,
        probabilities: Tensor | None = None,
        *,
        checked: bool = True,
    ) -> None:
        """Count a batch before it goes through the network, with the source's probabilities, (batch, classes).

        Where `memory` is a tensor, as in a graph, the host asks for no value. Unless `checked`, the caller looks for
        moments that are not finite after the pass, and goes back.
        """
        added = counted.sum()
        known = added.new_full((), self.window) if self.samples is None else self.samples
        self.samples = torch.minimum(known + added, added.clamp_min(memory))
        self.share = added / self.samples.clamp_min(TINY)
        self.between, self.checked = self.share * (1 - self.share), checked
        self.counted = counted if isinstance(memory, Tensor) or not bool(counted.all()) else None
        if probabilities is not None and self.classes is not None and self.class_shares is not None:
            tells = counted * is_finite(probabilities.sum(1))
            weight = tells.sum()
            mean = (tells @ probabilities.nan_to_num(0).to(tells) / weight.clamp_min(TINY))[self.classes]
            before = self.class_shares if self.mix is None else self.mix
            self.mix = before.lerp(mean.to(before), (self.share * weight / added.clamp_min(TINY)).to(before))

    def return_to(self, samples: Tensor | None, mix: Tensor | None) -> None:
        """Go back to what was counted before a batch."""
        self.samples, self.mix = samples, mix
        self.share, self.between, self.counted = 0.0, 0.0, None

    def check_state(self) -> None:
        """Refuse proportions of other classes than those that are known."""
        known = None if self.classes is None else len(self.classes)
        if any(part is not None and part.shape != (known,) for part in (self.mix, self.class_shares)):
            raise ValueError("the recent classes are not those that have source moments")


class Site(Stateful):
    """What a tap keeps: recent moments, and the source's."""

    mean: Tensor | None
    var: Tensor | None
    reference: list[Tensor] | None

    def __init__(self) -> None:
        super().__init__()
        self.add_state("mean", None)
        self.add_state("var", None)
        self.add_state("reference", None, kept=True)  # the fields of `Moments`

    def return_to(self, mean: Tensor | None, var: Tensor | None) -> None:
        """Go back to the recent moments of before a batch."""
        self.move_to(mean, var)

    def move_to(self, mean: Tensor | None, var: Tensor | None) -> None:
        """Take new moments; declared attributes are plain ones, which need no look at parameters and buffers."""
        vars(self).update(mean=mean, var=var)

    def check_state(self) -> None:
        """Refuse moments that are not those of the same channels."""
        shapes = {part.shape[-1:] for part in (self.mean, self.var, *(self.reference or ())) if part is not None}
        if len(shapes) > 1 or (self.mean is None) != (self.var is None) or len(self.reference or [0] * 4) != 4:
            raise ValueError("the moments of a tap contradict each other")


@dataclass(frozen=True)
class Basis:
    """The source's moments at a tap, with what follows from them for every batch."""

    moments: Moments
    eps: float | Tensor
    spread: Tensor  # variance plus epsilon, (channels,)
    weight: Tensor  # of a channel in the mean over channels, (channels,)
    away: Tensor | None  # of the stored from the source's own means; None: these are the same
    stored: Tensor  # variance plus epsilon of the layer, (channels,)
    made_of: tuple[object, ...]  # what it was computed from
    versions: tuple[int, int]  # of the stored statistics, which are written in place

    def holds_for(self, made_of: tuple[object, ...], versions: tuple[int, int]) -> bool:
        """Return whether it was computed from these very objects."""
        return versions == self.versions and all(map(operator.is_, made_of, self.made_of))


class Tap(NormLayer):
    """Restate the inputs of a BatchNorm layer: z' = (z − μ) σ_S / σ + μ_S, then normalise with its stored statistics.

    μ_S and σ_S are the moments of the source's own data; where nobody gave any, those that the layer stores. μ and σ
    are in between (`source_share` of the way back) these and the moments of recent inputs, this batch included unless
    paused, less what other class proportions explain. At the source's moments z' is z: the layer is what it was.

    >>> layer = Tap(nn.BatchNorm1d(1), following := Following(window=0), source_share=0.5)
    >>> following.count(torch.ones(2), memory=0)
    >>> round(float(layer(torch.tensor([[2.0], [2.0]]))[0]), 3)  # (2 − 1) / √½
    1.414
    """

    def __init__(self, layer: BatchNormLayer, following: Following, *, source_share: float, axis: int = 1) -> None:
        super().__init__(layer)
        self.source_share, self.axis = source_share, axis
        self.site = Site()
        self._shared = (following,)  # a tuple, so that it is no module of each tap
        self._basis: Basis | None = None
        self._unexplained: tuple[Tensor, Tensor] | None = None  # of the last batch: moved means, ratio of variances

    @property
    def following(self) -> Following:
        """What the taps of this network share."""
        return self._shared[0]

    @property
    def reference(self) -> Moments | None:
        """The source's moments: those given to `refer_to`, or those that the layer stores where none were measured."""
        basis = self.basis
        return None if basis is None else basis.moments

    @property
    def basis(self) -> Basis | None:
        """The source's moments with what follows from them, computed again when one of them has changed."""
        site, mean, var = self.site, self.source_mean, self.source_var
        made_of, versions = (site.reference, self._shared[0].classes, mean, var), (mean._version, var._version)
        basis = self._basis
        if basis is None or not basis.holds_for(made_of, versions):
            moments = self._moments()
            basis = None if moments is None else self._basis_of(moments, made_of, versions)
            vars(self).update(_basis=basis)
        return basis

    def _moments(self) -> Moments | None:
        if self.site.reference is not None:
            return Moments(*self.site.reference)
        if self._shared[0].classes is not None:  # source samples were measured, and this layer could not be
            return None
        precision = torch.promote_types(self.source_mean.dtype, torch.float32)  # single where the network is half
        mean = self.source_mean.to(precision)
        none = mean.new_zeros(0, len(mean))
        return Moments(mean, self.source_var.to(precision), none, none)

    def _basis_of(self, moments: Moments, made_of: tuple[object, ...], versions: tuple[int, int]) -> Basis:
        eps = self._eps(moments)
        spread = moments.var + eps
        away = None if self.site.reference is None else self.source_mean.to(spread) - moments.mean
        stored = self.source_var.to(spread) + self.eps
        return Basis(moments, eps, spread, torch.full_like(spread, 1 / len(spread)), away, stored, made_of, versions)

    def refer_to(self, moments: Moments) -> None:
        """Take these for the moments of the source's own data."""
        fields = (moments.mean, moments.var, moments.class_means, moments.class_squares)
        precision = torch.promote_types(self.source_mean.dtype, torch.float32)
        self.site.reference = [part.to(self.source_mean.device, precision) for part in fields]

    @torch.no_grad()
    def adapted(self, features: Tensor) -> Tensor:
        """Restate and normalise (batch, channels, ...)."""
        basis = self.basis
        if basis is None:
            return self.by_source(features)
        if not self.paused:
            self._follow(features, basis)
        restatement = self._restatement(basis)
        return self.by_source(features) if restatement is None else self.restate(features, *restatement)

    def restate(self, features: Tensor, centre: Tensor, gain: Tensor) -> Tensor:
        """Normalise (features − centre) / √gain + μ_S as the layer does, in one go."""
        mean, var = self._composed(centre, gain)
        return F.batch_norm(features, mean, var.to(mean), self.weight, self.bias, False, 0.0, 0.0)

    def _follow(self, features: Tensor, basis: Basis) -> None:
        following, site = self._shared[0], self.site
        mean, var = moments_of(features, self.axis, following.counted)
        old_mean, old_var = (
            (basis.moments.mean, basis.moments.var) if site.mean is None or site.var is None else (site.mean, site.var)
        )
        mean, var, share, between = mean.to(old_mean), var.to(old_var), following.share, following.between
        if isinstance(share, Tensor):
            share = share.to(mean)
        # The distance between the means adds to the variance; for single images it is a large part of it.
        apart = mean - old_mean
        new_mean, new_var = old_mean.lerp(mean, share), old_var.lerp(var, share).addcmul_(apart, apart * between)
        if following.checked:
            finite = all_finite(mean, var)
            new_mean, new_var = if_finite(finite, new_mean, old_mean), if_finite(finite, new_var, old_var)
        site.move_to(new_mean, new_var)

    def _restatement(self, basis: Basis) -> tuple[Tensor, Tensor] | None:
        """Return the mean that is taken off, and the variance divided by the source's; None before the first batch."""
        site, reference, mix = self.site, basis.moments, self._shared[0].mix
        if site.mean is None or site.var is None:
            return None
        moved, ratio = site.mean - reference.mean, (site.var + basis.eps) / basis.spread
        if mix is not None and len(mix) == len(reference.class_means):
            distance, var = reference.of_classes(mix.to(reference.class_means))
            moved, ratio = beyond(moved, distance), times_beyond(ratio, (var + basis.eps) / basis.spread)
        vars(self).update(_unexplained=(moved, ratio))
        kept = 1 - self.source_share
        return torch.add(reference.mean, moved, alpha=kept), ratio.mul(kept).add_(self.source_share)

    def shift(self) -> Tensor:
        """Return the Kullback-Leibler divergence of recent from source moments, averaged over channels, ().

        What other class proportions explain is left out. It is that of the last batch.
        """
        return shift_of([self])

    def divergent(self) -> tuple[Tensor, Tensor, Tensor, Tensor] | None:
        """Return what the divergence of each channel is made of, and its weight; None before the first batch."""
        basis = self.basis
        if basis is None or self._unexplained is None:
            return None
        return *self._unexplained, basis.spread, basis.weight

    def fixed_statistics(self, features: Tensor | None) -> tuple[Tensor, Tensor]:
        """Return the statistics that do the same in a BatchNorm layer."""
        restatement = None if self.basis is None else self._restatement(self.basis)
        if restatement is None:
            return self.source_mean, self.source_var
        mean, var = self._composed(*restatement)
        return mean, (var - self.eps).to(mean)

    def _composed(self, centre: Tensor, gain: Tensor) -> tuple[Tensor, Tensor]:
        """Return the mean, and the variance with its epsilon, with which the layer does both."""
        basis = self.basis
        assert basis is not None
        mean = centre if basis.away is None else torch.addcmul(centre, basis.away, gain.sqrt())
        return mean.to(self.source_mean), basis.stored * gain

    def _eps(self, reference: Moments) -> float | Tensor:
        return max(self.eps, TINY)


class OutputTap(Tap):
    """Restate the outputs of a layer that normalises each sample by itself, or not at all.

    There are no stored statistics to fall back on: before `refer_to` the outputs are left as they are.

    >>> tap = OutputTap(2, Following(window=0), source_share=0.5, axis=-1)
    >>> tap(torch.tensor([[1.0, 2.0]]))
    tensor([[1., 2.]])
    """

    def __init__(self, channels: int, following: Following, *, source_share: float, axis: int) -> None:
        unit = nn.BatchNorm1d(channels, eps=0.0, affine=False)
        super().__init__(unit, following, source_share=source_share, axis=axis)

    def _moments(self) -> Moments | None:
        return None if self.site.reference is None else Moments(*self.site.reference)

    def behind(self, layer: nn.Module, args: tuple[Any, ...], output: Any) -> Any:
        """Restate the output of a layer: the form of torch's forward hooks."""
        if isinstance(output, Tensor) and output.is_floating_point() and fits(output, self.num_features, self.axis):
            return self(output)
        return output

    def by_source(self, features: Tensor) -> Tensor:
        """Return the features as they are."""
        return features

    def restate(self, features: Tensor, centre: Tensor, gain: Tensor) -> Tensor:
        """Return (features − centre) / √gain + μ_S."""
        basis = self.basis
        assert basis is not None
        axes = [1] * features.dim()
        axes[self.axis] = -1
        scale = gain.rsqrt()
        shift = torch.addcmul(basis.moments.mean, centre, scale, value=-1)
        scale, shift = scale.view(axes).to(features.dtype), shift.view(axes).to(features.dtype)
        return torch.addcmul(shift, features, scale)

    def _eps(self, reference: Moments) -> float | Tensor:
        return (RELATIVE_EPS * reference.var.mean() + ROUNDING * reference.mean.square().mean()).clamp_min(TINY)


def fits(features: Tensor, channels: int, axis: int) -> bool:
    """Return whether features have this number of channels along an axis other than the first.

    >>> fits(torch.zeros(2, 3, 4), 4, axis=-1), fits(torch.zeros(2, 3, 4), 4, axis=1), fits(torch.zeros(4), 4, axis=-1)
    (True, False, False)
    """
    axes = features.dim()
    return -axes < axis < axes and axis != 0 and features.shape[axis] == channels


def beyond(whole: Tensor, explained: Tensor) -> Tensor:
    """Return what is left of a change when a part of it is explained: never more, and never the other way.

    >>> beyond(torch.tensor([2.0, 2.0, 2.0, -2.0]), torch.tensor([0.5, 3.0, -1.0, -0.5])).tolist()
    [1.5, 0.0, 2.0, -1.5]
    """
    return whole - whole.clamp(explained.clamp_max(0), explained.clamp_min(0))


def times_beyond(ratio: Tensor, explained: Tensor) -> Tensor:
    """Return what is left of a ratio when a part of it is explained: `beyond` of their logarithms.

    >>> times_beyond(torch.tensor([4.0, 4.0, 4.0, 0.25]), torch.tensor([2.0, 8.0, 0.5, 0.5])).tolist()
    [2.0, 1.0, 4.0, 0.5]
    """
    return ratio / ratio.clamp(explained.clamp_max(1), explained.clamp_min(1))


def shift_of(taps: Sequence[Tap]) -> Tensor:
    """Return the Kullback-Leibler divergence of recent from source moments, of an average channel, of all taps at once.

    >>> shift_of([])
    tensor(0.)
    """
    parts = [part for tap in taps if (part := tap.divergent()) is not None]
    if not parts:
        return torch.zeros(())
    moved, ratio, spread, weight = (torch.cat(part) for part in zip(*parts, strict=True))
    log_ratio = ratio.log()
    each = moved.square().div_(spread).add_(log_ratio.expm1()).sub_(log_ratio)
    return each.mul_(weight).sum() / (2 * sum(tap.basis is not None for tap in taps))
