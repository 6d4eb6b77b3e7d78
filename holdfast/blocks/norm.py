"""Replacements for BatchNorm layers that choose which statistics to normalise with."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from holdfast.blocks.finite import if_finite
from holdfast.blocks.sample_moments import raw_moments


class NoStatisticsError(ValueError):
    """A BatchNorm layer keeps no running statistics."""


class BatchNormLayer(Protocol):
    """What a replacement reads from a BatchNorm layer: `nn.BatchNorm2d` and its kin have it."""

    eps: float
    momentum: float | None

    @property
    def weight(self) -> Tensor | None:
        """The scale of each channel; None without affine parameters."""

    @property
    def bias(self) -> Tensor | None:
        """The shift of each channel; None without affine parameters."""

    @property
    def running_mean(self) -> Tensor | None:
        """The source mean of each channel."""

    @property
    def running_var(self) -> Tensor | None:
        """The source variance of each channel."""


class NormLayer(nn.Module, ABC):
    """Replaces a BatchNorm layer: shares its affine parameters and keeps its source statistics.

    A subclass writes `adapted`. With `as_source` set, every subclass normalises with the source statistics and
    computes exactly what the replaced layer computed in eval mode.
    """

    source_mean: Tensor
    source_var: Tensor
    weight: Tensor | None
    bias: Tensor | None

    def __init__(self, layer: BatchNormLayer) -> None:
        super().__init__()
        if layer.running_mean is None or layer.running_var is None:
            raise NoStatisticsError(
                "keeps no running statistics, so it has no source to return to; build the network with "
                "track_running_stats=True, or choose a method that changes no layer, such as 'neo', 't3a' or 'lame'"
            )
        self.paused = False  # normalise without updating statistics
        self.as_source = False  # normalise with the source statistics
        self.eps = layer.eps
        for name in ("weight", "bias"):
            values = getattr(layer, name)
            if values is None or isinstance(values, nn.Parameter):
                setattr(self, name, values)
            else:  # constants, as in front of a layer that has affine parameters of its own
                self.register_buffer(name, values)
        self.register_buffer("source_mean", layer.running_mean)
        self.register_buffer("source_var", layer.running_var)

    def forward(self, features: Tensor) -> Tensor:
        """Normalise (batch, channels, ...), by the source statistics where `as_source` is set."""
        return self.by_source(features) if self.as_source else self.adapted(features)

    def pause(self, pausing: bool = True) -> None:
        """Normalise without updating statistics from now on, or update them again."""
        self.paused = pausing

    def use_source(self, by_source: bool = True) -> None:
        """Normalise with the source statistics from now on, or with those of the method again."""
        self.as_source = by_source

    @property
    def uses_batch(self) -> bool:
        """Whether predictions are normalised with statistics of their own batch."""
        return False

    @abstractmethod
    def adapted(self, features: Tensor) -> Tensor:
        """Normalise (batch, channels, ...) with the statistics of the method."""

    def by_source(self, features: Tensor) -> Tensor:
        """Normalise (batch, channels, ...) as the replaced layer did, bit for bit."""
        return F.batch_norm(features, self.source_mean, self.source_var, self.weight, self.bias, False, 0.0, self.eps)

    @abstractmethod
    def fixed_statistics(self, features: Tensor | None) -> tuple[Tensor, Tensor] | None:
        """Return the mean and variance per channel with which these features are normalised, if all samples share them.

        None means that each sample is normalised by itself. Layers with stored statistics need no features.
        """

    def normalise(self, features: Tensor, mean: Tensor, var: Tensor) -> Tensor:
        """Normalise with the given statistics and apply the affine parameters."""
        return F.batch_norm(features, mean, var, self.weight, self.bias, False, 0.0, self.eps)

    def normalise_each(self, features: Tensor, mean: Tensor, var: Tensor) -> Tensor:
        """Normalise each sample with its own statistics, (batch, channels), as one sample of many channels."""
        batch, channels, *maps = features.shape
        weight, bias = (None if part is None else part.repeat(batch) for part in (self.weight, self.bias))
        flat = features.reshape(1, batch * channels, *maps)
        normalised = F.batch_norm(flat, mean.flatten(), var.flatten(), weight, bias, False, 0.0, self.eps)
        return normalised.view(features.shape)

    @property
    def running_mean(self) -> Tensor:
        """The source mean, for networks that read the buffer of their BatchNorm layer."""
        return self.source_mean

    @property
    def running_var(self) -> Tensor:
        """The source variance, for networks that read the buffer of their BatchNorm layer."""
        return self.source_var

    @property
    def num_features(self) -> int:
        """The number of channels, for networks that read it from their BatchNorm layer."""
        return len(self.source_mean)

    def extra_repr(self) -> str:
        """Show the number of channels, as torch's layers do."""
        return f"{len(self.source_mean)}, eps={self.eps}"


class BatchStatistics(NormLayer):
    """Normalises with the mean and biased variance of the current batch, in train and eval mode alike.

    Where a channel has a single value (a batch of one on a 1×1 map) it uses the source statistics.
    """

    @property
    def uses_batch(self) -> bool:
        """Whether predictions are normalised with statistics of their own batch: always."""
        return True

    def adapted(self, features: Tensor) -> Tensor:
        """Normalise (batch, channels, ...)."""
        if features.numel() == features.shape[1]:
            return self.by_source(features)
        return F.batch_norm(features, None, None, self.weight, self.bias, True, 0.0, self.eps)

    def fixed_statistics(self, features: Tensor | None) -> tuple[Tensor, Tensor]:
        """Return mean and biased variance of the batch."""
        features = needed(features)
        if features.numel() == features.shape[1]:
            return self.source_mean, self.source_var
        return batch_moments(features, unbiased=False)


def batch_moments(features: Tensor, *, unbiased: bool) -> tuple[Tensor, Tensor]:
    """Return mean and variance per channel of (batch, channels, ...); the variance of a single value is 0."""
    values = features.numel() // features.shape[1]
    if torch.is_autocast_enabled(features.device.type):  # weights and statistics keep their own precision
        features = features.float()
    if features.requires_grad or values == 1:
        axes = [axis for axis in range(features.dim()) if axis != 1]
        var, mean = torch.var_mean(features, axes, correction=int(unbiased and values > 1))
        return mean, var
    if features.is_contiguous() and features.device.type == "cpu":  # by far the fastest way to both there
        means, variances = raw_moments(features)
        if len(means) == 1 and not unbiased:
            return means[0], variances[0]
        mean = means.mean(0)
        var = (variances + (means - mean).square_()).mean(0)
        return mean, var * (values / (values - 1)) if unbiased else var
    # Without a gradient torch's own BatchNorm is the next: at momentum 1 its buffers are the moments.
    mean, var = features.new_zeros(2, features.shape[1])
    F.batch_norm(features, mean, var, None, None, True, 1.0, 1.0)
    return mean, var if unbiased else var * ((values - 1) / values)


class BlendedStatistics(NormLayer):
    """Normalises with λ · source + (1 − λ) · batch statistics (Schneider et al., NeurIPS 2020, Eq. 3)."""

    def __init__(self, layer: BatchNormLayer, *, source_share: Callable[[int], float], unbiased: bool = True) -> None:
        super().__init__(layer)
        self.source_share = source_share  # λ from the batch size
        self.unbiased = unbiased

    def adapted(self, features: Tensor) -> Tensor:
        """Normalise (batch, channels, ...)."""
        return self.normalise(features, *self.fixed_statistics(features))

    def fixed_statistics(self, features: Tensor | None) -> tuple[Tensor, Tensor]:
        """Return the blended mean and variance."""
        features = needed(features)
        mean, var = batch_moments(features, unbiased=self.unbiased)
        share = self.source_share(len(features))
        return mean.lerp(self.source_mean, share), var.lerp(self.source_var, share)


class CumulativeStatistics(NormLayer):
    """Normalises with the equal-weight average of the statistics of all batches so far, this one included."""

    mean: Tensor
    var: Tensor
    batches: Tensor

    def __init__(self, layer: BatchNormLayer) -> None:
        super().__init__(layer)
        self.register_buffer("mean", torch.zeros_like(self.source_mean))
        self.register_buffer("var", torch.ones_like(self.source_var))
        self.register_buffer("batches", torch.zeros((), dtype=torch.long, device=self.source_mean.device))

    @torch.no_grad()
    def adapted(self, features: Tensor) -> Tensor:
        """Normalise (batch, channels, ...)."""
        mean, var = batch_moments(features, unbiased=True)
        if not self.paused:
            finite = torch.isfinite(mean).all() & torch.isfinite(var).all()
            self.batches += finite
            share = self.batches.clamp_min(1).double().reciprocal().to(mean.dtype)
            self.mean.copy_(if_finite(finite, self.mean.lerp(mean, share), self.mean))
            self.var.copy_(if_finite(finite, self.var.lerp(var, share), self.var))
        return self.normalise(features, self.mean, self.var)

    def fixed_statistics(self, features: Tensor | None) -> tuple[Tensor, Tensor]:
        """Return the stored averages."""
        return self.mean, self.var


def needed(features: Tensor | None) -> Tensor:
    """Return the features, or raise for a layer that keeps no statistics of its own."""
    if features is None:
        raise ValueError(
            "this model predicts with the statistics of each batch and stores none; pass inputs=, a batch whose "
            "statistics to fix"
        )
    return features


def pause(model: nn.Module, pausing: bool = True) -> None:
    """Stop the normalisation layers of a network from updating statistics, or let them continue."""
    for layer in model.modules():
        if isinstance(layer, NormLayer) and layer.paused != pausing:
            layer.pause(pausing)


@contextmanager
def paused(model: nn.Module) -> Iterator[None]:
    """Update no statistics of a network inside the block."""
    before = {layer: layer.paused for layer in model.modules() if isinstance(layer, NormLayer)}
    pause(model)
    try:
        yield
    finally:
        for layer, was_paused in before.items():
            layer.pause(was_paused)


@contextmanager
def source_statistics(model: nn.Module) -> Iterator[None]:
    """Normalise with the source statistics inside the block, and update none.

    >>> network = nn.Sequential(BatchStatistics(nn.BatchNorm1d(1, eps=0)))
    >>> with source_statistics(network):
    ...     network(torch.tensor([[3.0], [5.0]])).flatten().tolist()
    [3.0, 5.0]
    """
    layers = [layer for layer in model.modules() if isinstance(layer, NormLayer)]
    before = [layer.as_source for layer in layers]
    for layer in layers:
        layer.use_source()
    try:
        yield
    finally:
        for layer, as_source in zip(layers, before, strict=True):
            layer.use_source(as_source)
