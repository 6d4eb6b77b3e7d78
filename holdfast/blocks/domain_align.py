"""Per-domain alignment of the inputs of GroupNorm and LayerNorm layers, for networks without BatchNorm."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from holdfast.blocks.domain_norm import DomainStatistics
from holdfast.blocks.robust_norm import moments


class AlignedStatistics(DomainStatistics):
    """Map features from the statistics of their domain to those of all domains; the first batch is unchanged.

    Ours: UniTTA is for BatchNorm layers, which store the statistics of the source. GroupNorm and LayerNorm store none,
    so domains start from the first batch, and only the differences between domains are removed. A single domain is left
    unchanged.
    """

    def __init__(self, width: int, *, device: torch.device, dtype: torch.dtype, **options: Any) -> None:
        layer = nn.BatchNorm1d(width, affine=False, device=device, dtype=dtype)
        assert layer.running_var is not None
        layer.running_var.zero_()  # marks statistics as unknown
        super().__init__(layer, **options)

    def adapted(self, features: Tensor) -> Tensor:
        """Align (batch, channels, ...)."""
        if not self.source_var.any():
            if self.paused:
                self.watch(features)
                return features
            self._start(*moments(features))
        return super().adapted(features)

    def by_source(self, features: Tensor) -> Tensor:
        """Return the features unchanged: the source aligns nothing."""
        return features

    def normalise(self, features: Tensor, mean: Tensor, var: Tensor) -> Tensor:
        """Align all samples with the same statistics."""
        return super().normalise(features, *self._toward_all(mean, var))

    def normalise_each(self, features: Tensor, mean: Tensor, var: Tensor) -> Tensor:
        """Align each sample with its own statistics, (batch, channels)."""
        return super().normalise_each(features, *self._toward_all(mean, var))

    def _toward_all(self, mean: Tensor, var: Tensor) -> tuple[Tensor, Tensor]:
        """Return moments that normalise to the pooled ones: (x − μ) σ₀ / σ + μ₀ = (x − (μ − μ₀ σ / σ₀)) / (σ / σ₀)."""
        ratio = (var + self.eps) / (self.var + self.eps)
        return mean - self.mean * ratio.sqrt(), ratio - self.eps

    def _start(self, mean: Tensor, var: Tensor) -> None:
        for own in (self.source_mean, self.class_mean, self.mean):
            own.copy_(mean)
        for own in (self.source_var, self.class_var, self.var):
            own.copy_(var)


class Aligned(nn.Module):
    """A GroupNorm or LayerNorm layer whose input is aligned first."""

    # NaN is unequal to itself, so torch's transformer layers call their submodules instead of a fused kernel.
    eps = float("nan")

    def __init__(self, layer: nn.GroupNorm | nn.LayerNorm, alignment: AlignedStatistics) -> None:
        super().__init__()
        self.layer, self.alignment = layer, alignment

    def forward(self, features: Tensor) -> Tensor:
        """Align the channels, over all positions or tokens, and normalise."""
        axis = channel_axis(self.layer, features)
        aligned = self.alignment(features.movedim(axis, 1)).movedim(1, axis)
        normalised: Tensor = self.layer(aligned)
        return normalised


def channel_axis(layer: nn.GroupNorm | nn.LayerNorm, features: Tensor) -> int:
    """Return the axis of the channels: the second, or the one that a LayerNorm normalises."""
    if isinstance(layer, nn.GroupNorm):
        return 1
    width = layer.normalized_shape[0]
    # A subclass for feature maps, such as ConvNeXt's, moves the axes itself.
    if type(layer) is not nn.LayerNorm and features.dim() == 4 and features.shape[1] == width:
        return 1
    return features.dim() - len(layer.normalized_shape)


def align_norm_layers(network: nn.Module, build: Callable[[int], AlignedStatistics]) -> int:
    """Insert an alignment before each GroupNorm and LayerNorm layer and return their number."""
    aligned = 0
    for name, child in list(network.named_children()):
        if isinstance(child, (nn.GroupNorm, nn.LayerNorm)):
            width = child.num_channels if isinstance(child, nn.GroupNorm) else child.normalized_shape[0]
            setattr(network, name, Aligned(child, build(width)))
            aligned += 1
        else:
            aligned += align_norm_layers(child, build)
    return aligned
