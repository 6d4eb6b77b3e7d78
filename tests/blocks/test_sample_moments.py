"""Moments of samples and of batches: those of torch, whichever kernel computes them."""

from __future__ import annotations

import pytest
import torch

from holdfast.blocks.norm import batch_moments
from holdfast.blocks.sample_moments import raw_moments, sample_moments

SHAPES = [(1, 3, 8, 8), (4, 3, 32, 32), (4, 3, 4, 4), (2, 5, 700), (6, 3), (1, 2, 3, 8, 8)]
FORMATS = [torch.contiguous_format, torch.channels_last]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("memory_format", FORMATS)
@pytest.mark.parametrize("unbiased", [False, True])
def test_moments_of_a_batch_are_those_of_torch(
    shape: tuple[int, ...], memory_format: torch.memory_format, unbiased: bool
) -> None:
    features = 3 + torch.randn(shape, generator=torch.Generator().manual_seed(0))
    features = features.contiguous(memory_format=memory_format) if features.dim() == 4 else features
    axes = [axis for axis in range(features.dim()) if axis != 1]
    var, mean = torch.var_mean(features.double(), axes, correction=int(unbiased))
    torch.testing.assert_close(batch_moments(features, unbiased=unbiased), (mean.float(), var.float()))


@pytest.mark.parametrize("shape", SHAPES)
def test_moments_of_samples_are_those_of_torch_and_have_their_gradient(shape: tuple[int, ...]) -> None:
    features = 3 + torch.randn(shape, generator=torch.Generator().manual_seed(0)).double()
    features = features.requires_grad_()
    var, mean = torch.var_mean(features.reshape(*shape[:2], -1), 2, correction=0)
    torch.testing.assert_close(sample_moments(features), (mean, var))
    expected, given = (
        torch.autograd.grad((one.sin() + other.cos()).sum(), features)[0]
        for one, other in ((mean, var), sample_moments(features))
    )
    torch.testing.assert_close(given, expected)


def test_a_constant_map_has_no_variance_and_one_with_an_infinite_value_no_finite_moments() -> None:
    maps = torch.full((1, 2, 8, 8), 1000.1)
    maps[0, 1, 0, 0] = torch.inf
    _, var = raw_moments(maps)
    assert float(var[0, 0]) == 0
    assert not torch.isfinite(var[0, 1])
