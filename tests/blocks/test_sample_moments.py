"""Moments of single samples: values and gradients."""

from __future__ import annotations

import pytest
import torch

from holdfast.blocks.sample_moments import sample_moments


def test_they_are_exact_far_from_the_origin() -> None:
    features = torch.randn(4, 3, 8, 8, generator=torch.Generator().manual_seed(0)) + 1000
    var, mean = torch.var_mean(features.double(), (2, 3), correction=0)
    found_mean, found_var = sample_moments(features)
    torch.testing.assert_close(found_mean.double(), mean, rtol=1e-6, atol=0)
    torch.testing.assert_close(found_var.double(), var, rtol=1e-4, atol=0)  # of the rounded inputs, 6e-5 apart


@pytest.mark.parametrize("shape", [(3, 2), (3, 2, 5), (2, 3, 4, 4)])
def test_their_gradients_are_those_of_the_formula(shape: tuple[int, ...]) -> None:
    generator = torch.Generator().manual_seed(0)
    features = torch.randn(shape, dtype=torch.float64, generator=generator, requires_grad=True)
    assert torch.autograd.gradcheck(sample_moments, features)
