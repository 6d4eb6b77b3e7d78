"""DELTA normalises with the statistics of the batches before, and gives rare classes more weight."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from holdfast.blocks.renorm import RenormalisedStatistics
from holdfast.methods.delta import Delta
from holdfast.model.adapt import adapt
from holdfast.models.tiny import tiny_resnet

FIRST, SECOND = torch.randn(2, 32, 3, generator=torch.Generator().manual_seed(0)) * torch.tensor([[[1.0]], [[5.0]]])
INPUTS = torch.rand(8, 3, 16, 16, generator=torch.Generator().manual_seed(0))


def test_values_are_those_of_the_averages_before_the_batch_and_gradients_those_of_the_batch() -> None:
    layer = RenormalisedStatistics(nn.BatchNorm1d(3))
    layer(FIRST)
    mean, std = layer.mean.clone(), layer.std.clone()
    inputs = SECOND.clone().requires_grad_()
    output = layer(inputs)
    assert torch.allclose(output, (SECOND - mean) / std, atol=1e-4)
    (gradient,) = torch.autograd.grad(output.square().sum(), inputs)
    assert gradient.sum(0).abs().max() < 1e-3  # a common shift of the batch changes nothing in batch normalisation
    assert torch.allclose(layer.mean, 0.95 * mean + 0.05 * SECOND.mean(0), atol=1e-6)


def test_the_averages_start_with_the_first_batch_or_with_the_source() -> None:
    for start, expected in (("batch", FIRST.mean(0)), ("source", 0.05 * FIRST.mean(0))):
        layer = RenormalisedStatistics(nn.BatchNorm1d(3), start=start)  # type: ignore[arg-type]
        layer(FIRST)
        assert torch.allclose(layer.mean, expected, atol=1e-6)


def test_a_single_value_is_normalised_with_the_stored_statistics() -> None:
    source = nn.BatchNorm1d(1, eps=0.25)
    assert source.running_var is not None
    source.running_var.fill_(0.75)  # with epsilon a deviation of 1
    layer = RenormalisedStatistics(source, start="source")
    assert layer(torch.tensor([[2.0]])).item() == pytest.approx(2.0)
    assert float(layer.fixed_statistics(None)[1]) == pytest.approx(0.75)


def test_classes_are_weighed_by_their_shares_before_the_batch() -> None:
    method = adapt(tiny_resnet(), "delta").method
    assert isinstance(method, Delta)
    method.class_shares = before = torch.tensor([0.55, *[0.05] * 9])
    logits = torch.zeros(2, 10)
    logits[0, 0], logits[1, 1] = 1.0, 3.0
    loss = method.loss(INPUTS[:2], logits)
    probs = logits.softmax(1)
    first, second = (float(-(row * row.log()).sum()) for row in probs)
    # 1 / 0.55 and 1 / 0.05 are as 1 to 11, and 1 on average.
    assert loss is not None
    assert float(loss) == pytest.approx((first / 6 + 11 * second / 6) / 2)
    assert torch.allclose(method.class_shares, 0.95 * before + 0.05 * probs.mean(0))


@pytest.mark.parametrize("base", ["tent", "entropy_weights", "pseudo_labels"])
def test_a_class_that_was_predicted_often_counts_less(base: str) -> None:
    losses = []
    for favoured in (0, 1):
        method = adapt(tiny_resnet(), "delta", base=base, entropy_margin=1.1, min_confidence=0.0).method
        assert isinstance(method, Delta)
        method.class_shares = torch.full((10,), 0.05)
        method.class_shares[favoured] = 0.55
        logits = torch.zeros(2, 10)
        logits[0, 0], logits[1, 1] = 1.0, 3.0  # the first sample is uncertain, the second is not
        loss = method.loss(INPUTS[:2], logits)
        assert loss is not None
        losses.append(float(loss))
    assert losses[0] < losses[1] if base != "entropy_weights" else losses[0] != losses[1]
