"""A reservoir gives each style its own weights, finds them again, and keeps no history of gradients."""

from __future__ import annotations

import pytest
import torch

from holdfast.methods.reservoir import Reservoir
from holdfast.model.adapt import adapt
from holdfast.models.tiny import tiny_resnet

CLEAN = torch.rand(5, 8, 3, 16, 16, generator=torch.Generator().manual_seed(0))
DARK = 0.2 * CLEAN


def visited(base: str = "tent") -> Reservoir:
    model = adapt(tiny_resnet(), "reservoir", source=list(CLEAN[:4]), base=base)
    method = model.method
    assert isinstance(method, Reservoir)
    method.clusters.threshold = 2.0  # above the noise of batches of eight
    chosen = []
    for batch in (CLEAN[4], DARK[4]) * 2:
        model(batch)
        chosen.append(method.current)
    assert chosen[0] != chosen[1], "another style must have its own weights"
    assert chosen[:2] == chosen[2:], "a style that returns must find its weights"
    return method


@pytest.mark.parametrize("base", ["tent", "eta", "roid", "rotta"])
def test_styles_have_their_own_weights_and_find_them_again(base: str) -> None:
    visited(base)


def test_the_bank_keeps_values_only() -> None:
    method = visited()
    tensors = [tensor for entry in method.snapshots() for tensor in entry["tensors"].values()]
    assert tensors
    assert all(tensor.grad_fn is None and not tensor.requires_grad for tensor in tensors)


def test_the_prediction_is_that_of_the_average_weights() -> None:
    method = visited()
    method.pause()
    probs = torch.tensor([0.3, 0.7])
    logits = method.predict_average(DARK[0], probs)
    entries = [entry["tensors"] for entry in method.snapshots()]
    with torch.no_grad():
        for name, weight in method.inner.named_parameters():
            if weight.requires_grad:
                own = [entry.get(name, method.inner.origin[name]) for entry in entries]
                weight.copy_(sum(share * values for share, values in zip(probs, own, strict=True)))
        assert torch.allclose(logits, method.model(DARK[0]), atol=1e-6)


def test_a_small_batch_opens_no_cluster() -> None:
    model = adapt(tiny_resnet(), "reservoir", source=list(CLEAN[:4]))
    method = model.method
    assert isinstance(method, Reservoir)
    method.clusters.threshold = 2.0
    sets = []
    for batch in (CLEAN[4], DARK[4][:7], DARK[4], 5 * CLEAN[4][:4]):
        model(batch)
        sets.append(len(method.bank))
    assert sets == [1, 1, 2, 2]


def test_a_reservoir_of_reservoirs_is_refused() -> None:
    with pytest.raises(ValueError, match="base of method 'reservoir' must be another method"):
        adapt(tiny_resnet(), "reservoir", source=[CLEAN[0]], base="reservoir")
