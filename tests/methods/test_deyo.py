"""DeYO trains on samples whose confidence drops when shape is destroyed, and on no others."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from holdfast.methods.deyo import Deyo
from holdfast.model.adapt import adapt
from holdfast.models.tiny import tiny_resnet

INPUTS = torch.rand(8, 3, 16, 16, generator=torch.Generator().manual_seed(0))


def intact(inputs: Tensor, _: torch.Generator) -> Tensor:
    return inputs


def test_nothing_is_trained_on_when_shape_makes_no_difference() -> None:
    model = adapt(tiny_resnet(), "deyo", destruction=intact, entropy_margin=1.1)
    assert model.step(INPUTS).loss is None
    assert isinstance(model.method, Deyo)
    assert (model.method.certain_samples, model.method.learnt_samples) == (8, 0)


def test_samples_are_weighted_by_certainty_and_by_the_drop() -> None:
    method = adapt(tiny_resnet(), "deyo", entropy_margin=1.1, min_drop=-1.0).method
    assert isinstance(method, Deyo)
    logits = method.predict(INPUTS)
    drop = method.confidence_drop(INPUTS, logits.detach())
    uncertainty = torch.special.entr(logits.softmax(1)).sum(1)
    expected = ((method.weight_entropy - uncertainty.detach()).exp() + drop.exp()) * uncertainty
    weighted = method.loss(INPUTS, logits)
    assert weighted is not None
    assert torch.allclose(weighted, expected.mean())
    ours, theirs = (torch.autograd.grad(loss, logits, retain_graph=True)[0] for loss in (weighted, expected.mean()))
    assert torch.allclose(ours, theirs, atol=1e-7)  # weights are constants


def test_an_unknown_destruction_is_refused() -> None:
    with pytest.raises(ValueError, match="destruction must be one of 'patch', 'occlusion', 'pixel', got 'puzzle'"):
        adapt(tiny_resnet(), "deyo", destruction="puzzle")
