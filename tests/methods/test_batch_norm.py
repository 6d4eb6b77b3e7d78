"""Test statistics: of the batch, blended with the source, and cumulative."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from holdfast.model.adapt import adapt


@pytest.fixture
def network() -> nn.Module:
    norm = nn.BatchNorm1d(4)
    norm.running_mean = torch.tensor([1.0, 2.0, 3.0, 4.0])
    norm.running_var = torch.tensor([1.0, 4.0, 9.0, 16.0])
    return nn.Sequential(norm, nn.Identity()).eval()


@pytest.fixture
def inputs() -> Tensor:
    return torch.randn(16, 4, generator=torch.Generator().manual_seed(0)) * 3 + 1


def normalised(inputs: Tensor, mean: Tensor, var: Tensor) -> Tensor:
    return (inputs - mean) / (var + 1e-5).sqrt()


def test_batch_statistics_are_biased(network: nn.Module, inputs: Tensor) -> None:
    expected = normalised(inputs, inputs.mean(0), inputs.var(0, correction=0))
    torch.testing.assert_close(adapt(network, "batch_norm", example=inputs)(inputs), expected)


@pytest.mark.parametrize(("options", "share"), [({"prior_samples": 16}, 0.5), ({"source_share": 0.25}, 0.25)])
def test_the_prior_blends_source_and_unbiased_batch_statistics(
    network: nn.Module, inputs: Tensor, options: dict[str, float], share: float
) -> None:
    mean = share * network[0].running_mean + (1 - share) * inputs.mean(0)
    var = share * network[0].running_var + (1 - share) * inputs.var(0)
    model = adapt(network, "batch_norm", example=inputs, **options)
    torch.testing.assert_close(model(inputs), normalised(inputs, mean, var))


def test_an_infinite_prior_is_the_source(network: nn.Module, inputs: Tensor) -> None:
    source = adapt(network, "source", example=inputs)(inputs)
    torch.testing.assert_close(adapt(network, "batch_norm", example=inputs, source_share=1.0)(inputs), source)


def test_cumulative_statistics_are_the_mean_over_batches(network: nn.Module, inputs: Tensor) -> None:
    first, second = inputs[:8], inputs[8:]
    model = adapt(network, "batch_norm", example=inputs, cumulative=True)
    model(first)
    mean = (first.mean(0) + second.mean(0)) / 2
    var = (first.var(0) + second.var(0)) / 2
    torch.testing.assert_close(model(second), normalised(second, mean, var))


def test_a_single_value_per_channel_falls_back_to_the_source(network: nn.Module, inputs: Tensor) -> None:
    source = adapt(network, "source", example=inputs)(inputs[:1])
    torch.testing.assert_close(adapt(network, "batch_norm", example=inputs)(inputs[:1]), source)


def test_options_that_exclude_each_other_are_refused(network: nn.Module, inputs: Tensor) -> None:
    with pytest.raises(ValueError, match="exclude each other"):
        adapt(network, "batch_norm", example=inputs, prior_samples=16, cumulative=True)
