"""Robust BN: a moving average that starts from the source, updated before or after the prediction."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from holdfast.model.adapt import adapt


@pytest.fixture
def network() -> nn.Module:
    norm = nn.BatchNorm1d(4)
    norm.running_mean, norm.running_var = torch.arange(1.0, 5.0), torch.arange(1.0, 5.0) ** 2
    return nn.Sequential(norm, nn.Identity()).eval()


@pytest.fixture
def batches() -> tuple[Tensor, Tensor]:
    inputs = torch.randn(32, 4, generator=torch.Generator().manual_seed(0)) * 3 + 1
    return inputs[:16], inputs[16:]


def moved(network: nn.Module, batches: list[Tensor]) -> tuple[Tensor, Tensor]:
    mean, var = network[0].running_mean, network[0].running_var
    for batch in batches:
        mean, var = 0.9 * mean + 0.1 * batch.mean(0), 0.9 * var + 0.1 * batch.var(0, correction=0)
    return mean, var


def normalised(inputs: Tensor, mean: Tensor, var: Tensor) -> Tensor:
    return (inputs - mean) / (var + 1e-5).sqrt()


@pytest.mark.parametrize("predict_first", [False, True])
def test_a_batch_is_predicted_after_or_before_it_updates_the_average(
    network: nn.Module, batches: tuple[Tensor, Tensor], predict_first: bool
) -> None:
    model = adapt(network, "robust_bn", example=batches[0], statistics_momentum=0.1, predict_first=predict_first)
    for seen, batch in enumerate(batches):
        step = model.step(batch)
        learnt = list(batches[: seen if predict_first else seen + 1])
        torch.testing.assert_close(step.logits, normalised(batch, *moved(network, learnt)))
        assert step.forwards == 1 + predict_first
    assert model.method.predicts == ("before" if predict_first else "after")


def test_paused_it_predicts_with_the_current_average(network: nn.Module, batches: tuple[Tensor, Tensor]) -> None:
    model = adapt(network, "robust_bn", example=batches[0], statistics_momentum=0.1)
    model(batches[0])
    model.method.pause()
    expected = normalised(batches[1], *moved(network, [batches[0]]))
    for _ in range(2):
        torch.testing.assert_close(model.method.predict(batches[1]), expected)
