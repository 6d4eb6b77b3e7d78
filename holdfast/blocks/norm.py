"""Normalisation: which statistics a BatchNorm layer uses, and which parameters are the affine ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeAlias

import torch
from torch import Tensor, nn
from torch.nn import functional as F

__all__ = [
    "BatchNorm",
    "BatchStatistics",
    "BlendedStatistics",
    "CumulativeStatistics",
    "NormLayer",
    "affine_parameters",
    "has_batch_norm",
    "pause",
    "paused",
    "replace_batch_norm",
]

BatchNorm: TypeAlias = nn.BatchNorm1d | nn.BatchNorm2d | nn.BatchNorm3d


class NormLayer(nn.Module):
    """Stands in for a BatchNorm layer: shares its affine parameters and keeps its source statistics aside."""

    source_mean: Tensor
    source_var: Tensor

    def __init__(self, layer: BatchNorm) -> None:
        super().__init__()
        if layer.running_mean is None or layer.running_var is None:
            raise ValueError(
                "a BatchNorm layer of this model keeps no running statistics, so there is no source to return to; "
                "build the model with track_running_stats=True"
            )
        self.paused = False  # normalise, but keep no statistics of what passes
        self.eps = layer.eps
        self.weight, self.bias = layer.weight, layer.bias  # None without affine
        self.register_buffer("source_mean", layer.running_mean)
        self.register_buffer("source_var", layer.running_var)

    def normalise(self, features: Tensor, mean: Tensor, var: Tensor) -> Tensor:
        """Normalise with the given statistics and apply the affine parameters."""
        return F.batch_norm(features, mean, var, self.weight, self.bias, False, 0.0, self.eps)

    def normalise_each(self, features: Tensor, mean: Tensor, var: Tensor) -> Tensor:
        """Normalise each sample with statistics of its own, (batch, channels): as one sample of many channels."""
        batch, channels, *maps = features.shape
        weight, bias = (None if part is None else part.repeat(batch) for part in (self.weight, self.bias))
        flat = features.reshape(1, batch * channels, *maps)
        normalised = F.batch_norm(flat, mean.flatten(), var.flatten(), weight, bias, False, 0.0, self.eps)
        return normalised.view(features.shape)

    def extra_repr(self) -> str:
        """Show the width, as torch's own layers do."""
        return f"{len(self.source_mean)}, eps={self.eps}"


class BatchStatistics(NormLayer):
    """Normalises with mean and biased variance of the current batch, in train and eval mode alike.

    Where a channel has one value only (a batch of one on a 1×1 map), the batch says nothing: source statistics.
    """

    def forward(self, features: Tensor) -> Tensor:
        """Normalise (batch, channels, ...)."""
        if features.numel() == features.shape[1]:
            return self.normalise(features, self.source_mean, self.source_var)
        return F.batch_norm(features, None, None, self.weight, self.bias, True, 0.0, self.eps)


def batch_moments(features: Tensor, *, unbiased: bool) -> tuple[Tensor, Tensor]:
    """Return mean and variance per channel of (batch, channels, ...); of a single value the variance is 0."""
    values = features.numel() // features.shape[1]
    if features.requires_grad or values == 1:
        axes = [axis for axis in range(features.dim()) if axis != 1]
        var, mean = torch.var_mean(features, axes, correction=int(unbiased and values > 1))
        return mean, var
    # Without a gradient torch's own BatchNorm is the fastest way to both: at momentum 1 its buffers are the moments.
    mean, var = features.new_zeros(2, features.shape[1])
    F.batch_norm(features, mean, var, None, None, True, 1.0, 1.0)
    return mean, var if unbiased else var * ((values - 1) / values)


class BlendedStatistics(NormLayer):
    """Normalises with λ · source + (1 − λ) · batch statistics (Schneider et al., NeurIPS 2020, Eq. 3)."""

    def __init__(self, layer: BatchNorm, *, source_share: Callable[[int], float], unbiased: bool = True) -> None:
        super().__init__(layer)
        self.source_share = source_share  # λ from the batch size
        self.unbiased = unbiased

    def forward(self, features: Tensor) -> Tensor:
        """Normalise (batch, channels, ...)."""
        mean, var = batch_moments(features, unbiased=self.unbiased)
        share = self.source_share(len(features))
        return self.normalise(features, mean.lerp(self.source_mean, share), var.lerp(self.source_var, share))


class CumulativeStatistics(NormLayer):
    """Normalises with the equal-weight average of the statistics of all batches so far, this one included."""

    mean: Tensor
    var: Tensor
    batches: Tensor

    def __init__(self, layer: BatchNorm) -> None:
        super().__init__(layer)
        self.register_buffer("mean", torch.zeros_like(self.source_mean))
        self.register_buffer("var", torch.ones_like(self.source_var))
        self.register_buffer("batches", torch.zeros((), dtype=torch.long))

    @torch.no_grad()
    def forward(self, features: Tensor) -> Tensor:
        """Normalise (batch, channels, ...)."""
        mean, var = batch_moments(features, unbiased=True)
        if not self.paused and torch.isfinite(mean).all() and torch.isfinite(var).all():
            self.batches += 1
            self.mean.lerp_(mean, 1 / int(self.batches))
            self.var.lerp_(var, 1 / int(self.batches))
        return self.normalise(features, self.mean, self.var)


def pause(model: nn.Module, pausing: bool = True) -> None:
    """Stop the normalisation layers of a network from learning statistics, or let them go on."""
    for layer in model.modules():
        if isinstance(layer, NormLayer):
            layer.paused = pausing


@contextmanager
def paused(model: nn.Module) -> Iterator[None]:
    """Learn no statistics from what passes through a network, for as long as the block lasts."""
    before = {layer: layer.paused for layer in model.modules() if isinstance(layer, NormLayer)}
    pause(model)
    try:
        yield
    finally:
        for layer, was_paused in before.items():
            layer.paused = was_paused


def has_batch_norm(model: nn.Module) -> bool:
    """Return whether a network has a BatchNorm layer, among whatever others."""
    return any(isinstance(layer, (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)) for layer in model.modules())


def replace_batch_norm(model: nn.Module, stand_in: Callable[[BatchNorm], nn.Module]) -> int:
    """Put a stand-in where each BatchNorm layer was and return how many there were."""
    replaced = 0
    for name, child in list(model.named_children()):
        if isinstance(child, (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)):
            setattr(model, name, stand_in(child))
            replaced += 1
        else:
            replaced += replace_batch_norm(child, stand_in)
    return replaced


def affine_parameters(model: nn.Module) -> list[nn.Parameter]:
    """Return weight and bias of every normalisation layer, in module order.

    >>> [tuple(weights.shape) for weights in affine_parameters(nn.Sequential(nn.Conv2d(3, 8, 3), nn.GroupNorm(2, 8)))]
    [(8,), (8,)]
    """
    kinds = (
        NormLayer,
        nn.modules.batchnorm._BatchNorm,
        nn.GroupNorm,
        nn.LayerNorm,
        nn.modules.instancenorm._InstanceNorm,
    )
    layers = (module for module in model.modules() if isinstance(module, kinds))
    found = (getattr(layer, name, None) for layer in layers for name in ("weight", "bias"))
    return [parameter for parameter in found if isinstance(parameter, nn.Parameter)]
