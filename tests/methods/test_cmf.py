"""CMF filters the weights: without noise it is ROID, and with noise the hidden network follows the adapted one."""

from __future__ import annotations

import torch

from holdfast.methods.cmf import REFERENCE_WEIGHTS, Cmf
from holdfast.model.adapt import adapt
from holdfast.models.tiny import tiny_resnet

BATCHES = torch.rand(4, 8, 3, 16, 16, generator=torch.Generator().manual_seed(0))


def test_without_noise_it_is_roid() -> None:
    roid, cmf = adapt(tiny_resnet(), "roid"), adapt(tiny_resnet(), "cmf", process_noise=0.0)
    for batch in BATCHES:
        assert torch.equal(roid(batch), cmf(batch))


def test_the_hidden_network_lies_between_source_and_adapted() -> None:
    weights = sum(weight.numel() for weight in adapt(tiny_resnet(), "cmf").method.trained)
    model = adapt(tiny_resnet(), "cmf", process_noise=0.05 * REFERENCE_WEIGHTS / weights)
    for batch in BATCHES:
        model(batch)
    method = model.method
    assert isinstance(method, Cmf)
    assert method.gain < 1
    moved, followed = (
        sum(
            float((new.detach() - old).square().sum())
            for new, old in zip(weights, method.source_weights(), strict=True)
        )
        for weights in (method.trained, method.hidden)
    )
    assert 0 < followed < moved
