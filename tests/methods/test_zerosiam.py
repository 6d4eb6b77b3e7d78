"""ZeroSiam: the entropy reaches the network only through the map, which starts as the identity."""

from __future__ import annotations

import torch

from holdfast.blocks.losses import entropy
from holdfast.methods.zerosiam import ZeroSiam
from holdfast.model.adapt import adapt
from holdfast.models.tiny import tiny_resnet

INPUTS = torch.rand(8, 3, 16, 16, generator=torch.Generator().manual_seed(0))


def zerosiam() -> ZeroSiam:
    method = adapt(tiny_resnet(), "zerosiam").method
    assert isinstance(method, ZeroSiam)
    return method


def test_the_first_loss_is_the_entropy() -> None:
    method = zerosiam()
    logits = method.predict(INPUTS)
    assert torch.allclose(method.loss(INPUTS, logits), entropy(logits).mean(), atol=1e-6)


def test_no_gradient_passes_the_map_when_it_is_closed() -> None:
    method = zerosiam()
    with torch.no_grad():
        method.map.weight.zero_()
    loss = method.loss(INPUTS, method.predict(INPUTS))
    *affine, own = torch.autograd.grad(loss, method.trained)
    assert all(not gradient.any() for gradient in affine)
    assert own.any()


def test_the_map_has_its_own_rate() -> None:
    method = adapt(tiny_resnet(), "zerosiam", lr=0.0, predictor_lr=0.1).method
    before = [weight.detach().clone() for weight in method.trained]
    method.adapt(INPUTS)
    moved = [not torch.equal(old, new) for old, new in zip(before, method.trained, strict=True)]
    assert moved == [False] * (len(moved) - 1) + [True]
