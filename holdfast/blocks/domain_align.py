"""Domains apart in networks without BatchNorm: features are aligned before GroupNorm and LayerNorm layers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from holdfast.blocks.domain_norm import DomainStatistics
from holdfast.blocks.robust_norm import moments

__all__ = ["Aligned", "AlignedStatistics", "align_norm_layers", "channel_axis"]


class AlignedStatistics(DomainStatistics):
    """Brings features from the statistics of their domain to those of all domains, and leaves them alone at first.

    Ours: UniTTA is for BatchNorm, whose layers know the statistics of the source. Here nobody does: domains start from
    the first batch met, and what is taken out is how they differ, not what they share. A single domain stays as it is.
    """

    def __init__(self, width: int, *, device: torch.device, dtype: torch.dtype, **options: Any) -> None:
        layer = nn.BatchNorm1d(width, affine=False, device=device, dtype=dtype)
        assert layer.running_var is not None
        layer.running_var.zero_()  # nothing is known as yet
        super().__init__(layer, **options)

    def forward(self, features: Tensor) -> Tensor:
        """Align (batch, channels, ...)."""
        if not self.source_var.any():
            if self.paused:
                self.watch(features)
                return features
            self._start(*moments(features))
        return super().forward(features)

    def normalise(self, features: Tensor, mean: Tensor, var: Tensor) -> Tensor:
        """Align all samples alike."""
        return super().normalise(features, *self._toward_all(mean, var))

    def normalise_each(self, features: Tensor, mean: Tensor, var: Tensor) -> Tensor:
        """Align each sample by statistics of its own, (batch, channels)."""
        return super().normalise_each(features, *self._toward_all(mean, var))

    def _toward_all(self, mean: Tensor, var: Tensor) -> tuple[Tensor, Tensor]:
        """Return what normalises to the mixture of all: (x − μ) σ₀ / σ + μ₀ = (x − (μ − μ₀ σ / σ₀)) / (σ / σ₀)."""
        ratio = (var + self.eps) / (self.var + self.eps)
        return mean - self.mean * ratio.sqrt(), ratio - self.eps

    def _start(self, mean: Tensor, var: Tensor) -> None:
        for own in (self.source_mean, self.class_mean, self.mean):
            own.copy_(mean)
        for own in (self.source_var, self.class_var, self.var):
            own.copy_(var)


class Aligned(nn.Module):
    """A GroupNorm or LayerNorm layer whose input is aligned first."""

    # Unequal to itself: torch's own transformer layers then call their parts one by one instead of a fused kernel.
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
    """Return which axis holds the channels: the second, or that of the tokens' width."""
    if isinstance(layer, nn.GroupNorm):
        return 1
    width = layer.normalized_shape[0]
    # A subclass for maps, as ConvNeXt's, moves the axes itself.
    if type(layer) is not nn.LayerNorm and features.dim() == 4 and features.shape[1] == width:
        return 1
    return features.dim() - len(layer.normalized_shape)


def align_norm_layers(network: nn.Module, build: Callable[[int], AlignedStatistics]) -> int:
    """Put an alignment before each GroupNorm and LayerNorm layer and return how many there are."""
    found = 0
    for name, child in list(network.named_children()):
        if isinstance(child, (nn.GroupNorm, nn.LayerNorm)):
            width = child.num_channels if isinstance(child, nn.GroupNorm) else child.normalized_shape[0]
            setattr(network, name, Aligned(child, build(width)))
            found += 1
        else:
            found += align_norm_layers(child, build)
    return found
