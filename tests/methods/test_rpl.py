"""RPL: generalised cross-entropy to the predicted labels."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from holdfast.blocks.losses import generalised_cross_entropy
from holdfast.model.adapt import adapt
from holdfast.models.tiny import tiny_resnet

INPUTS = torch.rand(8, 3, 16, 16, generator=torch.Generator().manual_seed(0))


def test_the_loss_is_that_of_the_own_labels() -> None:
    step = adapt(tiny_resnet(), "rpl").step(INPUTS)
    confidence = step.logits.softmax(1).max(1).values
    assert step.loss == pytest.approx(float(((1 - confidence**0.8) / 0.8).mean()), rel=1e-5)


def test_generalised_cross_entropy_lies_between_cross_entropy_and_the_error() -> None:
    logits = torch.randn(6, 10, generator=torch.Generator().manual_seed(0))
    labels = torch.arange(6)
    cross_entropy = F.cross_entropy(logits, labels, reduction="none")
    error = 1 - logits.softmax(1)[torch.arange(6), labels]
    torch.testing.assert_close(
        generalised_cross_entropy(logits, labels, exponent=1e-4), cross_entropy, rtol=1e-3, atol=0
    )
    torch.testing.assert_close(generalised_cross_entropy(logits, labels, exponent=1.0), error)


def test_a_wrong_label_pulls_less_than_under_cross_entropy() -> None:
    logits = torch.tensor([[8.0, 0.0]], requires_grad=True)
    wrong = torch.tensor([1])
    (forgiving,) = torch.autograd.grad(generalised_cross_entropy(logits, wrong, exponent=0.8).sum(), logits)
    (plain,) = torch.autograd.grad(F.cross_entropy(logits, wrong), logits)
    assert forgiving.norm() < 0.01 * plain.norm()


def test_all_parameters_are_trained_on_request_only() -> None:
    source = dict(tiny_resnet().named_parameters())
    for train_all in (False, True):
        model = adapt(tiny_resnet(), "rpl", train_all=train_all, lr=0.1)
        model(INPUTS)
        adapted = dict(model.method.model.module.named_parameters())
        moved = {name for name in source if not torch.equal(source[name], adapted[name])}
        assert ("fc.weight" in moved) == train_all
        assert "norm.weight" in moved


def test_an_exponent_outside_the_loss_is_refused() -> None:
    with pytest.raises(ValueError, match="above 0 and up to 1"):
        adapt(tiny_resnet(), "rpl", exponent=0.0)
