"""Mean and variance of the feature maps of each sample."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

__all__ = ["sample_moments"]


def sample_moments(features: Tensor) -> tuple[Tensor, Tensor]:
    """Return mean and biased variance of each map of (batch, channels, ...), each (batch, channels), differentiably.

    >>> mean, var = sample_moments(torch.tensor([[[1.0, 1.0, 3.0, 3.0], [5.0, 5.0, 5.0, 5.0]]]))
    >>> mean.tolist(), var.tolist()
    ([[2.0, 5.0]], [[1.0, 0.0]])
    """
    if torch.is_autocast_enabled(features.device.type):  # weights and statistics keep their own precision
        features = features.float()
    mean, var = _SampleMoments.apply(features)  # type: ignore[no-untyped-call]
    return mean, var


class _SampleMoments(torch.autograd.Function):
    """Centre, then take the norm: as exact as `torch.var_mean` over two axes, and several times faster."""

    @staticmethod
    def forward(ctx: Any, features: Tensor) -> tuple[Tensor, Tensor]:
        maps = features.flatten(2) if features.dim() > 2 else features.unsqueeze(2)
        mean = maps.mean(2)
        var = torch.linalg.vector_norm(maps - mean.unsqueeze(2), dim=2).square_().div_(maps.shape[2])
        ctx.save_for_backward(features, mean)
        return mean, var

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, mean_gradient: Tensor, var_gradient: Tensor) -> Tensor:
        features, mean = ctx.saved_tensors
        values = features.numel() // mean.numel()
        shape = (*mean.shape, *[1] * (features.dim() - 2))
        # d mean / d F = 1 / n and d var / d F = 2 (F - mean) / n, as one fused product and sum.
        slope = var_gradient * (2 / values)
        offset = mean_gradient / values - slope * mean
        return torch.addcmul(offset.view(shape), features, slope.view(shape))
