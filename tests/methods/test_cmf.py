"""CMF filters the weights: without noise it is ROID, and with noise the hidden network follows the adapted one."""

from __future__ import annotations

import pytest
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


def test_variance_gain_and_hidden_weights_follow_the_filter_by_hand() -> None:
    weights = sum(weight.numel() for weight in adapt(tiny_resnet(), "cmf").method.trained)
    noise = 0.05 * REFERENCE_WEIGHTS / weights  # q = 0.05
    method = adapt(tiny_resnet(), "cmf", source_momentum=0.8, process_noise=noise).method
    assert isinstance(method, Cmf)
    with torch.no_grad():
        for weight in method.trained:
            weight += 1.0
    # 0.95 / (0.05 + 0.95); then 0.8² · 0.0475 + 0.05 = 0.0804, and so on.
    for gain, variance, moved in (
        (0.95, 0.0475, 0.05),
        (0.921972, 0.0741266, 0.1149068),
        (0.906972, 0.0883763, 0.1764015),
    ):
        hidden = method.averaged_with()
        assert (method.gain, method.variance) == (pytest.approx(gain, abs=1e-6), pytest.approx(variance, abs=1e-6))
        for filtered, origin in zip(hidden, method.source_weights(), strict=True):
            assert torch.allclose(filtered - origin, torch.full_like(filtered, moved), atol=1e-6)
