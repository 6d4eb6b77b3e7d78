"""NEO centres the features."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from holdfast.model.adapt import adapt
from holdfast.models.tiny import tiny_vit


@pytest.fixture
def network() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(6, 4)).eval()


@pytest.fixture
def inputs() -> Tensor:
    return torch.randn(48, 6, generator=torch.Generator().manual_seed(0)) + 3


def test_the_centre_is_the_mean_of_all_samples_so_far(network: nn.Module, inputs: Tensor) -> None:
    model = adapt(network, "neo", example=inputs)
    for start, stop in ((0, 16), (16, 20), (20, 48)):
        expected = network[1](inputs[start:stop] - inputs[:stop].mean(0))
        torch.testing.assert_close(model(inputs[start:stop]), expected.detach())


def test_with_a_momentum_the_centre_follows_from_the_origin(network: nn.Module, inputs: Tensor) -> None:
    model = adapt(network, "neo", example=inputs, centre_momentum=0.1)
    centre = torch.zeros(6)
    for batch in inputs.split(16):
        centre = 0.9 * centre + 0.1 * batch.mean(0)
        torch.testing.assert_close(model(batch), network[1](batch - centre).detach())


def test_a_shift_of_all_features_is_taken_out(network: nn.Module, inputs: Tensor) -> None:
    here, elsewhere = (adapt(network, "neo", example=inputs)(batch) for batch in (inputs, inputs + 5))
    torch.testing.assert_close(here, elsewhere, atol=1e-4, rtol=1e-4)


def test_paused_it_predicts_with_the_current_centre(network: nn.Module, inputs: Tensor) -> None:
    model = adapt(network, "neo", example=inputs)
    model(inputs[:16])
    model.method.pause()
    expected = network[1](inputs[16:] - inputs[:16].mean(0)).detach()
    torch.testing.assert_close(model.method.predict(inputs[16:]), expected)


@pytest.mark.parametrize(
    "network",
    [
        nn.Linear(6, 4),
        nn.Sequential(nn.Unflatten(1, (6, 1, 1)), nn.Conv2d(6, 4, 1), nn.Flatten()),
        nn.Sequential(nn.Sequential(nn.ReLU(), nn.Linear(6, 4, bias=False))),
    ],
    ids=["a single layer", "a convolution", "without bias"],
)
def test_the_export_centres_whatever_the_last_layer_is(network: nn.Module, inputs: Tensor) -> None:
    model = adapt(network.eval(), "neo", example=inputs)
    model(inputs)
    assert model.method.centre.shape == (6,)
    model.method.pause()
    assert torch.equal(model.export()(inputs), model.method.predict(inputs))


def test_a_transformer_needs_one_pass() -> None:
    inputs = torch.rand(8, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    step = adapt(tiny_vit(), "neo").step(inputs)
    assert (step.forwards, step.backwards) == (1.0, 0.0)


def test_non_finite_logits_do_not_move_the_centre(network: nn.Module, inputs: Tensor) -> None:
    nn.init.constant_(network[1].weight, 3e38)  # finite, but overflows in the last layer
    model = adapt(network, "neo", example=inputs)
    assert model.step(inputs).skipped == "non-finite logits"
    assert model.method.samples == 0
    assert not model.method.centre.any()


def test_without_a_last_linear_layer_it_is_refused_at_once(inputs: Tensor) -> None:
    with pytest.raises(ValueError, match="head="):
        adapt(nn.Sequential(nn.Linear(6, 4), nn.ReLU()).eval(), "neo", example=inputs)
