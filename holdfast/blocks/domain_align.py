"""Domains apart in networks without BatchNorm: features are aligned before GroupNorm and LayerNorm layers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn

from holdfast.blocks.domain_norm import DomainStatistics
from holdfast.blocks.robust_norm import moments, pool_moments
from holdfast.state import Stateful

__all__ = ["Aligned", "AlignedStatistics", "Reference", "align_norm_layers", "channel_axis", "fit_alignment"]


class Reference(Stateful):
    """What source inputs have told about one layer, which a reset does not forget."""

    moments: Tensor | None  # mean and variance, (2, channels)

    def __init__(self) -> None:
        super().__init__()
        self.add_state("moments", None, kept=True)


class AlignedStatistics(DomainStatistics):
    """Brings features from the statistics of their domain to reference ones, and leaves them as they are at first.

    Ours: UniTTA is for BatchNorm, whose layers know the statistics of the source. Here source inputs tell them
    (`fit_alignment`), and are the reference. Without them domains start from the first batch met, and the reference is
    what all domains have in common: that takes out how they differ, not what they share.
    """

    def __init__(self, width: int, *, device: torch.device, dtype: torch.dtype, **options: Any) -> None:
        layer = nn.BatchNorm1d(width, affine=False, device=device, dtype=dtype)
        assert layer.running_var is not None
        layer.running_var.zero_()  # nothing is known as yet
        super().__init__(layer, **options)
        self.reference = Reference()
        self.fitting: list[tuple[Tensor, Tensor]] | None = None

    def forward(self, features: Tensor) -> Tensor:
        """Align (batch, channels, ...)."""
        if self.fitting is not None:
            self.fitting.append(moments(features))
            return features
        if not self.source_var.any():
            if self.frozen:
                self.watch(features)
                return features
            self._start(*(moments(features) if self.reference.moments is None else self.reference.moments))
        return super().forward(features)

    def normalise(self, features: Tensor, mean: Tensor, var: Tensor) -> Tensor:
        """Align all samples alike."""
        return super().normalise(features, *self._toward_reference(mean, var))

    def normalise_each(self, features: Tensor, mean: Tensor, var: Tensor) -> Tensor:
        """Align each sample by statistics of its own, (batch, channels)."""
        return super().normalise_each(features, *self._toward_reference(mean, var))

    def _toward_reference(self, mean: Tensor, var: Tensor) -> tuple[Tensor, Tensor]:
        """Return what normalises to the reference: (x − μ) σ₀ / σ + μ₀ = (x − (μ − μ₀ σ / σ₀)) / (σ / σ₀)."""
        known = self.reference.moments
        toward_mean, toward_var = (self.mean, self.var) if known is None else known.to(mean)
        ratio = (var + self.eps) / (toward_var + self.eps)
        return mean - toward_mean * ratio.sqrt(), ratio - self.eps

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


@torch.no_grad()
def fit_alignment(network: nn.Module, batches: Iterable[Tensor]) -> None:
    """Learn the reference of every alignment from source inputs."""
    layers = [part for part in network.modules() if isinstance(part, AlignedStatistics)]
    for layer in layers:
        layer.fitting = []
    try:
        for inputs in batches if layers else ():
            network(inputs)
        for layer in layers:
            if layer.fitting:
                means, vars_ = zip(*layer.fitting, strict=True)
                layer.reference.moments = torch.stack(pool_moments(torch.stack(means), torch.stack(vars_)))
    finally:
        for layer in layers:
            layer.fitting = None
