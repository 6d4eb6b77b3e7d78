"""The entropy of an opinion: no gradient along the norm, finite for large logits, and one more class for doubt."""

from __future__ import annotations

import math

import pytest
import torch

from holdfast.blocks.losses import opinion_entropy
from holdfast.blocks.objectives import objective_named

LOGITS = torch.randn(6, 10, generator=torch.Generator().manual_seed(0))


def test_confidence_cannot_grow_by_scale_alone() -> None:
    logits = LOGITS.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(opinion_entropy(logits).sum(), logits)
    assert gradient.abs().max() > 1e-3
    assert (gradient * logits).sum(1).abs().max() < 1e-6


def test_it_is_the_formula_of_the_paper() -> None:
    evidence = LOGITS.double().exp()
    total = evidence.sum(1, keepdim=True) + 10
    opinion = torch.cat([evidence / total, 10 / total], 1) + 1e-7
    assert torch.allclose(opinion_entropy(LOGITS.double()), -(opinion * opinion.log()).sum(1))


@pytest.mark.parametrize("logits", [torch.tensor([[200.0, 0.0]]), torch.zeros(1, 2), torch.tensor([[1.0, -math.inf]])])
def test_large_zero_and_masked_logits_have_finite_values_and_gradients(logits: torch.Tensor) -> None:
    logits = logits.clone().requires_grad_()
    value = opinion_entropy(logits)
    (gradient,) = torch.autograd.grad(value.sum(), logits)
    assert torch.isfinite(value).all()
    assert torch.isfinite(gradient).all()


def test_the_released_code_doubts_as_with_1000_classes() -> None:
    released = objective_named("come_released")(LOGITS)
    assert torch.allclose(released, opinion_entropy(LOGITS, doubt=1000))
    assert not torch.allclose(released, opinion_entropy(LOGITS))
    with pytest.raises(ValueError, match="objective must be one of 'entropy', 'come'"):
        objective_named("comet")  # type: ignore[arg-type]
