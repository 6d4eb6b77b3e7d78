"""Taps: restate activations so that recent inputs have the moments of the source's own data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from holdfast.blocks.finite import all_finite, if_finite
from holdfast.blocks.norm import BatchNormLayer, NormLayer, batch_moments
from holdfast.blocks.sample_moments import sample_moments
from holdfast.state import Stateful

__all__ = ["Following", "Moments", "OutputTap", "Tap", "beyond", "fits", "moments_by_sample", "source_moments"]

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
        self.counted: Tensor | None = None  # which of its samples count, (batch,); None: all

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

    def count(self, counted: Tensor, memory: int | Tensor, probabilities: Tensor | None = None) -> None:
        """Count a batch before it goes through the network, with the source's probabilities, (batch, classes).

        Where `memory` is a tensor, as in a graph, the host asks for no value.
        """
        added = counted.sum()
        known = added.new_full((), self.window) if self.samples is None else self.samples
        self.samples = torch.minimum(known + added, added.clamp_min(memory))
        self.share = added / self.samples.clamp_min(TINY)
        self.counted = counted if isinstance(memory, Tensor) or not bool(counted.all()) else None
        if probabilities is not None and self.classes is not None and self.class_shares is not None:
            tells = counted * torch.isfinite(probabilities).all(1)
            weight = tells.sum()
            mean = (tells @ probabilities.nan_to_num(0).to(tells) / weight.clamp_min(TINY))[self.classes]
            before = self.class_shares if self.mix is None else self.mix
            self.mix = before.lerp(mean.to(before), (self.share * weight / added.clamp_min(TINY)).to(before))

    def return_to(self, samples: Tensor | None, mix: Tensor | None) -> None:
        """Go back to what was counted before a batch."""
        self.samples, self.mix = samples, mix
        self.share, self.counted = 0.0, None

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
        self.mean, self.var = mean, var

    def check_state(self) -> None:
        """Refuse moments that are not those of the same channels."""
        shapes = {part.shape[-1:] for part in (self.mean, self.var, *(self.reference or ())) if part is not None}
        if len(shapes) > 1 or (self.mean is None) != (self.var is None) or len(self.reference or [0] * 4) != 4:
            raise ValueError("the moments of a tap contradict each other")


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
        self._shared = (following,)  # a tuple, so that it is no module of each tap
        self._unexplained: tuple[Tensor, Tensor] | None = None  # of the last batch

    @property
    def following(self) -> Following:
        """What the taps of this network share."""
        return self._shared[0]

    @property
    def reference(self) -> Moments | None:
        """The source's moments: those given to `refer_to`, or those that the layer stores where none were measured."""
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

    @torch.no_grad()
    def adapted(self, features: Tensor) -> Tensor:
        """Restate and normalise (batch, channels, ...)."""
        reference = self.reference
        if reference is None:
            return self.by_source(features)
        if not self.paused:
            self._follow(features, reference)
        found = self._restatement(reference)
        return self.by_source(features) if found is None else self.restate(features, *found)

    def restate(self, features: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
        """Normalise scale · features + shift as the layer does, in one go."""
        return self.normalise(features, *self._composed(scale, shift))

    def _follow(self, features: Tensor, reference: Moments) -> None:
        following = self._shared[0]
        mean, var = moments_of(features, self.axis, following.counted)
        old_mean, old_var = (
            (reference.mean, reference.var)
            if self.site.mean is None or self.site.var is None
            else (self.site.mean, self.site.var)
        )
        share = following.share
        share = share.to(mean) if isinstance(share, Tensor) else share
        # The distance between the means adds to the variance; for single images it is a large part of it.
        spread = old_var.lerp(var.to(old_var), share) + share * (1 - share) * (mean - old_mean).square()
        finite = all_finite(mean, var)
        self.site.var = if_finite(finite, spread.to(old_var), old_var)
        self.site.mean = if_finite(finite, old_mean.lerp(mean.to(old_mean), share), old_mean)

    def _restatement(self, reference: Moments) -> tuple[Tensor, Tensor] | None:
        """Return scale and shift of each channel; None before the first batch."""
        if self.site.mean is None or self.site.var is None:
            return None
        eps = self._eps(reference)
        moved = self.site.mean - reference.mean
        spread = ((self.site.var + eps) / (reference.var + eps)).log()
        mix = self._shared[0].mix
        if mix is not None and len(mix) == len(reference.class_means):
            distance, var = reference.of_classes(mix.to(reference.class_means))
            moved, spread = beyond(moved, distance), beyond(spread, ((var + eps) / (reference.var + eps)).log())
        self._unexplained = moved.square() / (reference.var + eps), spread
        kept = 1 - self.source_share
        scale = (1 + kept * spread.expm1()).rsqrt()
        return scale, reference.mean - (reference.mean + kept * moved) * scale

    def shift(self) -> Tensor:
        """Return the Kullback-Leibler divergence of recent from source moments, averaged over channels, ().

        What other class proportions explain is left out. It is that of the last batch.
        """
        if self._unexplained is None:
            return self.source_mean.new_zeros(())
        distance, spread = self._unexplained
        return 0.5 * (distance + spread.expm1() - spread).mean()

    def fixed_statistics(self, features: Tensor | None) -> tuple[Tensor, Tensor]:
        """Return the statistics that do the same in a BatchNorm layer."""
        found = None if self.reference is None else self._restatement(self.reference)
        return (self.source_mean, self.source_var) if found is None else self._composed(*found)

    def _composed(self, scale: Tensor, shift: Tensor) -> tuple[Tensor, Tensor]:
        mean = (self.source_mean - shift) / scale
        var = (self.source_var + self.eps) / scale.square() - self.eps
        return mean.to(self.source_mean), var.to(self.source_var)

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

    @property
    def reference(self) -> Moments | None:
        """The source's moments, once they were given."""
        return None if self.site.reference is None else Moments(*self.site.reference)

    def behind(self, layer: nn.Module, args: tuple[Any, ...], output: Any) -> Any:
        """Restate the output of a layer: the form of torch's forward hooks."""
        if isinstance(output, Tensor) and output.is_floating_point() and fits(output, self.num_features, self.axis):
            return self(output)
        return output

    def by_source(self, features: Tensor) -> Tensor:
        """Return the features as they are."""
        return features

    def restate(self, features: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
        """Return scale · features + shift."""
        axes = [1] * features.dim()
        axes[self.axis] = -1
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
    return whole - torch.minimum(torch.maximum(explained, whole.clamp_max(0)), whole.clamp_min(0))
