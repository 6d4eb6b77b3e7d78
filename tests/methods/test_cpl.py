"""CPL: conjugate labels in closed form, and predictions before or after the update."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from holdfast.blocks.losses import conjugate_loss, entropy
from holdfast.model.adapt import adapt
from holdfast.models.tiny import tiny_resnet

INPUTS = torch.rand(2, 8, 3, 16, 16, generator=torch.Generator().manual_seed(0))


def loss_by_solving(logits: Tensor, poly_epsilon: float) -> Tensor:
    """Return the loss as published: one linear system for each sample."""
    probs = logits.softmax(1)
    matrices = torch.eye(logits.shape[1], dtype=logits.dtype) + poly_epsilon * (
        torch.diag_embed(probs) - probs[:, :, None] * probs[:, None, :]
    )
    labels = torch.linalg.solve(matrices, probs[:, :, None]).squeeze(2)
    return (labels * (-probs.log() + poly_epsilon * (1 - probs))).sum(1)


@pytest.mark.parametrize("poly_epsilon", [0.0, 1.0, 6.0, 8.0])
def test_the_closed_form_is_the_solution_of_the_linear_system(poly_epsilon: float) -> None:
    logits = (3 * torch.randn(16, 10, dtype=torch.double, generator=torch.Generator().manual_seed(0))).requires_grad_()
    closed, solved = conjugate_loss(logits, poly_epsilon=poly_epsilon), loss_by_solving(logits, poly_epsilon)
    torch.testing.assert_close(closed, solved)
    torch.testing.assert_close(*(torch.autograd.grad(loss.sum(), logits) for loss in (closed, solved)))


def test_a_masked_class_does_no_harm() -> None:
    logits = torch.tensor([[1.0, 0.0, -torch.inf]], requires_grad=True)
    loss = conjugate_loss(logits, poly_epsilon=6.0)
    torch.testing.assert_close(loss, conjugate_loss(logits[:, :2], poly_epsilon=6.0))
    assert torch.isfinite(torch.autograd.grad(loss.sum(), logits)[0]).all()


def test_temperature_changes_the_loss_and_not_the_prediction() -> None:
    step = adapt(tiny_resnet(), "cpl", temperature=2.0).step(INPUTS[0])
    assert step.loss == pytest.approx(float(entropy(step.logits / 2).mean()), rel=1e-5)
    assert torch.equal(step.logits, adapt(tiny_resnet(), "batch_norm")(INPUTS[0]))


def test_a_prediction_after_the_update_is_that_of_the_updated_network() -> None:
    before, after = (adapt(tiny_resnet(), "cpl", predicts=when, lr=0.1) for when in ("before", "after"))
    assert (before.method.predicts, after.method.predicts) == ("before", "after")
    for inputs in INPUTS:
        early, late = before.step(inputs), after.step(inputs)
        assert late.loss == early.loss
        assert (early.forwards, late.forwards, late.backwards) == (1.0, 2.0, 1.0)
        with torch.no_grad():
            assert torch.equal(late.logits, before.method.predict(inputs))


def test_a_bad_batch_is_predicted_without_an_update() -> None:
    model = adapt(tiny_resnet(), "cpl", predicts="after", lr=0.1)
    poisoned = INPUTS[0].clone()
    poisoned[0, 0, 0, 0] = torch.nan
    step = model.step(poisoned)
    assert step.loss is None
    assert (step.forwards, step.backwards) == (1.0, 0.0)
    assert torch.equal(model(INPUTS[1]), adapt(tiny_resnet(), "cpl", predicts="after", lr=0.1)(INPUTS[1]))


def test_an_unknown_moment_is_refused() -> None:
    with pytest.raises(ValueError, match="'before' or 'after'"):
        adapt(tiny_resnet(), "cpl", predicts="later")
