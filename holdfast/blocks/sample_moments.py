"""Mean and variance of the feature maps of each sample."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

LARGE_MAP = 512  # values, from which one kernel is faster than several; for a single sample it always is


def sample_moments(features: Tensor) -> tuple[Tensor, Tensor]:
    """Return mean and biased variance of each map of (batch, channels, ...), each (batch, channels), differentiably.

    >>> mean, var = sample_moments(torch.tensor([[[1.0, 1.0, 3.0, 3.0], [5.0, 5.0, 5.0, 5.0]]]))
    >>> mean.tolist(), var.tolist()
    ([[2.0, 5.0]], [[1.0, 0.0]])
    """
    if torch.is_autocast_enabled(features.device.type):  # weights and statistics keep their own precision
        features = features.float()
    if not (features.requires_grad and torch.is_grad_enabled()):
        return raw_moments(features)
    mean, var = _SampleMoments.apply(features)  # type: ignore[no-untyped-call]
    return mean, var


def raw_moments(features: Tensor) -> tuple[Tensor, Tensor]:
    """Return mean and biased variance of each map, as exact as `torch.var_mean` and several times faster.

    >>> [part.tolist() for part in raw_moments(torch.tensor([[[1.0, 1.0, 3.0, 3.0], [5.0, 5.0, 5.0, 5.0]]]))]
    [[[2.0, 5.0]], [[1.0, 0.0]]]
    """
    if features.dim() > 2 and features.is_contiguous() and not torch.compiler.is_compiling():
        batch, channels, *_ = features.shape
        values = features.numel() // (batch * channels)
        if batch == 1 or values >= LARGE_MAP:  # GroupNorm with a group for each channel
            _, mean, deviation = torch.native_group_norm(features, None, None, batch, channels, values, channels, 0.0)
            return mean, deviation.pow_(-2)  # it was its inverse
    maps = features.flatten(2) if features.dim() > 2 else features.unsqueeze(2)
    mean = maps.mean(2)
    return mean, torch.linalg.vector_norm(maps - mean.unsqueeze(2), dim=2).square_().div_(maps.shape[2])


class _SampleMoments(torch.autograd.Function):
    """The moments with their gradient."""

    @staticmethod
    def forward(ctx: Any, features: Tensor) -> tuple[Tensor, Tensor]:
        mean, var = raw_moments(features)
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
