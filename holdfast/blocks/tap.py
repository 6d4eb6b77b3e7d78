"""Taps: restate activations so that recent inputs have the moments of the source's own data."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from holdfast.blocks.finite import all_finite, if_finite, is_finite
from holdfast.blocks.norm import BatchNormLayer, NormLayer, batch_moments
from holdfast.blocks.sample_moments import raw_moments, sample_moments
from holdfast.state import VERSION, Stateful

TINY = 1e-12
RELATIVE_EPS = 1e-5  # of the mean variance of an output: channels without variance are not amplified
ROUNDING = 1e-10  # of the mean square of an output: constant outputs differ by that from sample to sample
LARGE = 2**20  # class moments that are not kept a second time
SINGLE = 4  # bytes of a value in single precision
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
        distance, squares = proportions @ self.class_means, proportions @ self.class_squares
        return distance, squares.add_(self.var).addcmul_(distance, distance, value=-1).clamp_min_(0)


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
    moments = mean, var, of_class @ (means - mean), of_class @ (squares - var)
    return Moments(*(part.float() for part in moments))


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
        features = features.detach() if features.requires_grad else features
        features = features if features.itemsize >= SINGLE else features.float()
        if axis == 1 and features.shape[0] == 1 and features.is_contiguous():  # its own moments are the batch's
            mean, var = raw_moments(features)
            return mean.squeeze(0), var.squeeze(0)
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
        self._joined: Joined | None = None
        self._explained: tuple[Joined, Explained] | None = None
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
        if isinstance(memory, Tensor):
            self._count_on_device(counted, memory, probabilities)
            return
        known = counted.new_full((), self.window) if self.samples is None else self.samples
        told = counted.new_zeros(()) if probabilities is None else probabilities.sum()
        added, before, total = torch.stack([counted.sum(), known, told.to(known)]).tolist()  # the host waits once
        samples = min(before + added, max(added, memory))
        self.samples = known.new_full((), samples)
        self.share = added / max(samples, TINY)
        self.between, self.checked = self.share * (1 - self.share), checked
        self.counted = None if added == len(counted) else counted
        if probabilities is None or self.classes is None or self.class_shares is None:
            return
        if self.counted is None and math.isfinite(total):
            mix = self.class_shares if self.mix is None else self.mix
            self.mix = mix.lerp(probabilities.mean(0)[self.classes].to(mix), self.share)
        else:
            self._mix(counted, probabilities)

    def _count_on_device(self, counted: Tensor, memory: Tensor, probabilities: Tensor | None) -> None:
        """Do the same where the host asks for no value."""
        added = counted.sum()
        known = added.new_full((), self.window) if self.samples is None else self.samples
        self.samples = torch.minimum(known + added, added.clamp_min(memory))
        self.share = added / self.samples.clamp_min(TINY)
        self.between, self.checked, self.counted = self.share * (1 - self.share), True, counted
        if probabilities is not None and self.classes is not None and self.class_shares is not None:
            self._mix(counted, probabilities)

    def _mix(self, counted: Tensor, probabilities: Tensor) -> None:
        """Let the proportions follow the samples that count and whose probabilities are finite."""
        assert self.classes is not None
        tells = counted * is_finite(probabilities.sum(1))
        weight, added = tells.sum(), counted.sum()
        mean = (tells @ probabilities.nan_to_num(0).to(tells) / weight.clamp_min(TINY))[self.classes]
        before = self.class_shares if self.mix is None else self.mix
        assert before is not None
        self.mix = before.lerp(mean.to(before), (self.share * weight / added.clamp_min(TINY)).to(before))

    def joined(self, bases: Sequence[Basis]) -> Joined:
        """Return bases of taps one after the other, joined again when one of them has changed."""
        joined = self._joined
        if joined is None or len(bases) != len(joined.bases) or not all(map(operator.is_, bases, joined.bases)):
            joined = Joined.of(bases)
            vars(self).update(_joined=joined)
        return joined

    def explained(self, joined: Joined) -> Explained | None:
        """Return what the class proportions of now explain at all taps, one after the other, if they are known."""
        if self.mix is None or joined.bases[0].classes != len(self.mix):
            return None
        if self._explained is None or self._explained[0] is not joined or self._explained[1].mix is not self.mix:
            vars(self).update(_explained=(joined, joined.explained(self.mix)))
        assert self._explained is not None
        return self._explained[1]

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
        """Go back to the moments from before a batch."""
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
    """The source's moments at a tap, with what follows from them for every batch; of each channel, (channels,)."""

    moments: Moments
    eps: Tensor  # that is added to variances
    spread: Tensor  # variance plus epsilon
    kept: Tensor  # the part of the ratio of variances that stays 1
    in_mean: Tensor  # the weight of a channel in the mean over channels
    weight: Tensor  # of what is restated to mean 0 and variance 1
    bias: Tensor
    classes: int  # that have moments of their own
    made_of: tuple[object, ...]  # what it was computed from
    versions: list[int]  # of the tensors among it


class Explained(NamedTuple):
    """Which moments class proportions explain: all between the source's and those of its samples in them."""

    mix: Tensor  # these proportions
    mean: tuple[Tensor, Tensor]  # the lowest and the highest
    spread: tuple[Tensor, Tensor]  # the same of variances plus epsilon

    def nearest(self, mean: Tensor, spread: Tensor) -> tuple[Tensor, Tensor]:
        """Return the explained moments that are nearest to others.

        What is left of a change is never more than the whole, and never the other way.

        >>> bounds = torch.tensor([0.0, -1.0]), torch.tensor([0.5, 0.0])
        >>> Explained(torch.ones(1), bounds, bounds).nearest(torch.tensor([2.0, 2.0]), torch.tensor([0.2, -3.0]))
        (tensor([0.5000, 0.0000]), tensor([ 0.2000, -1.0000]))
        """
        return mean.clamp(*self.mean), spread.clamp(*self.spread)

    def split(self, sizes: list[int]) -> list[Explained]:
        """Return what is explained at each of several taps with these numbers of channels."""
        parts = zip(*[part.split(sizes) for part in (*self.mean, *self.spread)], strict=True)
        return [Explained(self.mix, (low, high), (small, large)) for low, high, small, large in parts]


@dataclass(frozen=True)
class Joined:
    """The bases of all taps of a network, one after the other; class moments too unless they are large."""

    bases: tuple[Basis, ...]
    mean: Tensor
    eps: Tensor
    spread: Tensor
    in_mean: Tensor
    sizes: list[int]
    moments: Moments | None

    @classmethod
    def of(cls, bases: Sequence[Basis]) -> Joined:
        """Join bases."""
        fields_of_each = [(basis.moments.mean, basis.eps, basis.spread, basis.in_mean) for basis in bases]
        mean, eps, spread, in_mean = (torch.cat(parts) for parts in zip(*fields_of_each, strict=True))
        sizes, moments = [len(basis.spread) for basis in bases], None
        if bases[0].classes * sum(sizes) <= LARGE:
            fields = ("mean", "var", "class_means", "class_squares")
            moments = Moments(*(torch.cat([getattr(basis.moments, name) for basis in bases], -1) for name in fields))
        return cls(tuple(bases), mean, eps, spread, in_mean, sizes, moments)

    def of_classes(self, proportions: Tensor) -> tuple[Tensor, Tensor]:
        """Return the distance from the mean, and the variance, of source samples in other class proportions."""
        if self.moments is not None:
            return self.moments.of_classes(proportions)
        parts = [basis.moments.of_classes(proportions) for basis in self.bases]
        return torch.cat([distance for distance, _ in parts]), torch.cat([var for _, var in parts])

    def explained(self, mix: Tensor) -> Explained:
        """Return what class proportions explain."""
        distance, var = self.of_classes(mix.to(self.spread))
        mean, spread = distance.add_(self.mean), var.add_(self.eps)
        bounds = [
            (torch.minimum(one, other), torch.maximum(one, other))
            for one, other in ((self.mean, mean), (self.spread, spread))
        ]
        return Explained(mix, *bounds)


class Tap(NormLayer):
    """Restate the inputs of a BatchNorm layer: z' = (z − μ) σ_S / σ + μ_S, then normalise with its stored statistics.

    μ_S and σ_S are the moments of the source's own data; without any, those that the layer stores. μ and σ
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
        self._shared = (following, self.site)  # a tuple, so that the first is no module of each tap
        self.newest: Basis | None = None  # of the last pass
        self._explained: Explained | None = None

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
        following, site = self._shared
        # Not as attributes, which torch looks for elsewhere first: every layer of every pass comes here.
        tensors = (*self._parameters.values(), *self._buffers.values())
        made_of, versions = (site.reference, following.classes, *tensors), [*map(VERSION, tensors)]
        basis = self.newest
        if basis is None or versions != basis.versions or not all(map(operator.is_, made_of, basis.made_of)):
            moments = self._moments()
            basis = None if moments is None else self._basis_of(moments, made_of, versions)
            vars(self).update(newest=basis)
        return basis

    def _basis_of(self, moments: Moments, made_of: tuple[object, ...], versions: list[int]) -> Basis:
        eps = torch.zeros_like(moments.var) + self._eps(moments)
        spread = moments.var + eps
        kept, in_mean = torch.full_like(spread, self.source_share), torch.full_like(spread, 1 / len(spread))
        weight, bias = self._affine(moments)
        return Basis(moments, eps, spread, kept, in_mean, weight, bias, len(moments.class_means), made_of, versions)

    def _affine(self, moments: Moments) -> tuple[Tensor, Tensor]:
        """Return weight and bias of the layer for inputs of mean 0 and variance 1 instead of the source's."""
        stored = self.source_var.to(moments.var) + self.eps
        weight = stored.rsqrt() if self.weight is None else self.weight.to(stored) / stored.sqrt()
        bias = (moments.mean - self.source_mean.to(stored)) * weight
        return weight, bias if self.bias is None else bias + self.bias

    def _moments(self) -> Moments | None:
        if self.site.reference is not None:
            return Moments(*self.site.reference)
        if self._shared[0].classes is not None:  # source samples were measured, and this layer could not be
            return None
        precision = torch.promote_types(self.source_mean.dtype, torch.float32)  # single where the network is half
        mean = self.source_mean.to(precision)
        none = mean.new_zeros(0, len(mean))
        return Moments(mean, self.source_var.to(precision), none, none)

    def refer_to(self, moments: Moments) -> None:
        """Take these for the moments of the source's own data."""
        fields = (moments.mean, moments.var, moments.class_means, moments.class_squares)
        precision = torch.promote_types(self.source_mean.dtype, torch.float32)
        self.site.reference = [part.to(self.source_mean.device, precision) for part in fields]

    def adapted(self, features: Tensor) -> Tensor:
        """Restate and normalise (batch, channels, ...), without a graph."""
        if torch.is_grad_enabled():  # asked first, because entering a context takes as long as several operations
            with torch.no_grad():
                return self.adapted(features)
        basis = self.basis
        if basis is None:
            return self.by_source(features)
        if not self.paused:
            self._follow(features, basis)
        restatement = self._restatement(basis)
        return self.by_source(features) if restatement is None else self.restate(features, basis, *restatement)

    def restate(self, features: Tensor, basis: Basis, centre: Tensor, gain: Tensor) -> Tensor:
        """Normalise (features − centre) / √gain + μ_S as the layer does, in one go."""
        return F.batch_norm(features, centre, gain, basis.weight, basis.bias, False, 0.0, 0.0)

    def _follow(self, features: Tensor, basis: Basis) -> None:
        following, site = self._shared
        mean, var = moments_of(features, self.axis, following.counted)
        old_mean, old_var = (
            (basis.moments.mean, basis.moments.var) if site.mean is None or site.var is None else (site.mean, site.var)
        )
        share, between = following.share, following.between
        if mean.dtype is not old_mean.dtype:
            mean, var = mean.to(old_mean), var.to(old_var)
        if isinstance(share, Tensor):
            share = share.to(mean)
        # The distance between the means adds to the variance; for single images it is a large part of it.
        apart = mean - old_mean
        new_mean, new_var = old_mean.lerp(mean, share), old_var.lerp(var, share)
        if isinstance(between, Tensor):
            new_var.addcmul_(apart, apart * between)
        else:
            new_var.addcmul_(apart, apart, value=between)
        if following.checked:
            finite = all_finite(mean, var)
            new_mean, new_var = if_finite(finite, new_mean, old_mean), if_finite(finite, new_var, old_var)
        site.move_to(new_mean, new_var)

    def _restatement(self, basis: Basis) -> tuple[Tensor, Tensor] | None:
        """Return the mean that is taken off, and the variance divided by the source's; None before the first batch."""
        following, site = self._shared
        mean, var = site.mean, site.var
        if mean is None or var is None:
            return None
        source, explained, spread = basis.moments.mean, self._explained, var + basis.eps
        if following.mix is not None and (explained is None or explained.mix is not following.mix):
            explain([self])
            explained = self._explained
        if following.mix is None or explained is None or explained.mix is not following.mix:
            nearest_mean, nearest_spread = source, basis.spread
        else:
            nearest_mean, nearest_spread = explained.nearest(mean, spread)
        share = 1 - self.source_share
        centre = torch.add(source, mean - nearest_mean, alpha=share)
        return centre, torch.addcdiv(basis.kept, spread, nearest_spread, value=share)

    def expect(self, explained: Explained) -> None:
        """Take what class proportions explain, for the batches that have them."""
        vars(self).update(_explained=explained)

    def shift(self) -> Tensor:
        """Return the Kullback-Leibler divergence of recent from source moments, averaged over channels, ()."""
        return shift_of([self])

    def fixed_statistics(self, features: Tensor | None) -> tuple[Tensor, Tensor]:
        """Return the statistics that do the same in a BatchNorm layer."""
        basis = self.basis
        restatement = None if basis is None else self._restatement(basis)
        if basis is None or restatement is None:
            return self.source_mean, self.source_var
        centre, gain = restatement
        away, stored = self.source_mean.to(centre) - basis.moments.mean, self.source_var.to(gain) + self.eps
        mean, var = centre + away * gain.sqrt(), stored * gain - self.eps
        return mean.to(self.source_mean), var.to(self.source_mean)

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

    def _affine(self, moments: Moments) -> tuple[Tensor, Tensor]:
        """Return those of the source's own moments."""
        return torch.ones_like(moments.mean), moments.mean

    def restate(self, features: Tensor, basis: Basis, centre: Tensor, gain: Tensor) -> Tensor:
        """Return (features − centre) / √gain + μ_S."""
        axes = [1] * features.dim()
        axes[self.axis] = -1
        scale = gain.rsqrt()
        shift = torch.addcmul(basis.bias, centre, scale, value=-1)
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


def explain(taps: Sequence[Tap]) -> None:
    """Tell taps of one network what class proportions explain now, all at once."""
    if not taps or taps[0].following.mix is None:
        return
    following, known = taps[0].following, [tap for tap in taps if tap.basis is not None]
    joined = following.joined([tap.newest for tap in known if tap.newest is not None]) if known else None
    if joined is not None and (explained := following.explained(joined)) is not None:
        for tap, own in zip(known, explained.split(joined.sizes), strict=True):
            tap.expect(own)


def shift_of(taps: Sequence[Tap]) -> Tensor:
    """Return the Kullback-Leibler divergence of recent from source moments, of an average channel, of all taps at once.

    What other class proportions explain is left out.

    >>> shift_of([])
    tensor(0.)
    """
    bases: list[Basis] = []
    means: list[Tensor] = []
    variances: list[Tensor] = []
    for tap in taps:
        if (basis := tap.newest) is not None:
            site, moments = tap.site, basis.moments
            bases.append(basis)
            means.append(moments.mean if site.mean is None else site.mean)
            variances.append(moments.var if site.var is None else site.var)
    if not bases:
        return torch.zeros(())
    following = taps[0].following
    joined, mean = following.joined(bases), torch.cat(means)
    explained, spread = following.explained(joined), torch.cat(variances).add_(joined.eps)
    nearest = (joined.mean, joined.spread) if explained is None else explained.nearest(mean, spread)
    log_ratio = spread.div_(nearest[1]).log_()
    each = mean.sub_(nearest[0]).square_().div_(joined.spread).add_(log_ratio.expm1()).sub_(log_ratio)
    return each.mul_(joined.in_mean).sum() / (2 * len(bases))
