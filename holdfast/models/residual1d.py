"""Residual blocks over time with weight-standardised convolutions, as in AMAuT."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

NORM_EPS = 1e-6


def standardised(weight: Tensor) -> Tensor:
    """Return filters with mean 0 and variance 1, (filters, …) (Qiao et al., arXiv 1903.10520)."""
    var, mean = torch.var_mean(weight, tuple(range(1, weight.dim())), correction=0, keepdim=True)
    return (weight - mean) / (var + 1e-5).sqrt()


class StandardisedConv1d(nn.Conv1d):
    """A convolution over time without bias, with standardised filters."""

    def __init__(self, width_in: int, width: int, kernel: int, stride: int = 1, padding: int = 0) -> None:
        super().__init__(width_in, width, kernel, stride, padding, bias=False)

    def forward(self, input: Tensor) -> Tensor:
        """Return the feature maps, (batch, width, time)."""
        return F.conv1d(input, standardised(self.weight), None, self.stride, self.padding)


class Bottleneck(nn.Module):
    """Three convolutions, the middle one over time and narrower, and a shortcut."""

    def __init__(self, width_in: int, width: int, middle: int, stride: int = 1) -> None:
        super().__init__()
        self.conv1 = StandardisedConv1d(width_in, middle, 1)
        self.norm1 = nn.BatchNorm1d(middle, NORM_EPS)
        self.conv2 = StandardisedConv1d(middle, middle, 7, stride, 3)
        self.norm2 = nn.BatchNorm1d(middle, NORM_EPS)
        self.conv3 = StandardisedConv1d(middle, width, 1)
        self.norm3 = nn.BatchNorm1d(width, NORM_EPS)
        changes = width != width_in or stride > 1
        self.shortcut = nn.Sequential(
            *([StandardisedConv1d(width_in, width, 1, stride), nn.BatchNorm1d(width)] if changes else [])
        )

    def forward(self, maps: Tensor) -> Tensor:
        """Return the feature maps, (batch, width, time)."""
        residual = F.relu(self.norm1(self.conv1(maps)))
        residual = F.relu(self.norm2(self.conv2(residual)))
        residual = self.norm3(self.conv3(residual))
        return F.relu(residual + self.shortcut(maps))


def stem(width_in: int, width: int) -> nn.Sequential:
    """Return the first layers, which reduce the time axis to a quarter."""
    convolution = StandardisedConv1d(width_in, width, 14, 2, 6)
    return nn.Sequential(convolution, nn.BatchNorm1d(width, NORM_EPS), nn.ReLU(), nn.MaxPool1d(6, 2, 2))


def stages(width: int, extra_blocks: Sequence[int]) -> nn.Sequential:
    """Return the blocks after a stem of this width: each stage starts with a wider block, followed by extra ones.

    >>> [part.conv3.out_channels for part in stages(8, [1, 2])]
    [32, 32, 64, 64, 64]
    """
    blocks: list[Bottleneck] = []
    for stage, extra in enumerate(extra_blocks):
        wide, middle, stride = (2 * width, width // 2, 2) if stage else (4 * width, width, 1)
        blocks += [Bottleneck(width, wide, middle, stride), *(Bottleneck(wide, wide, middle) for _ in range(extra))]
        width = wide
    return nn.Sequential(*blocks)
