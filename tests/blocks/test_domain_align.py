"""Alignment in networks without BatchNorm: no change at first, then domain shifts are removed."""

from __future__ import annotations

import copy
from contextlib import nullcontext

import pytest
import torch
from torch import Tensor, nn

from holdfast.blocks.balanced_norm import given_labels
from holdfast.blocks.domain_align import Aligned, AlignedStatistics, align_norm_layers, channel_axis
from holdfast.blocks.domain_tracker import Domains
from holdfast.model.adapt import adapt
from holdfast.models.resnet import ChannelLayerNorm
from holdfast.models.tiny import tiny_resnet

OPTIONS = {"num_classes": 2, "class_momentum": 0.02, "agnostic_share": 0.0}


def aligned(layer: nn.Module) -> nn.Sequential:
    network = nn.Sequential(layer).double()
    placement = {"device": torch.device("cpu"), "dtype": torch.float64}
    assert align_norm_layers(network, lambda width: AlignedStatistics(width, **placement, **OPTIONS)) == 1  # type: ignore[arg-type]
    return network.requires_grad_(False)


def features(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)) + 1


@pytest.mark.parametrize(
    ("layer", "shape", "axis"),
    [
        (nn.GroupNorm(2, 4), (8, 4, 3, 3), 1),
        (nn.LayerNorm(4), (8, 5, 4), 2),
        (nn.LayerNorm(4), (8, 4, 4, 4), 3),
        (ChannelLayerNorm(4), (8, 4, 4, 4), 1),
        (nn.LayerNorm([4, 3, 3]), (8, 4, 3, 3), 1),
    ],
)
def test_channels_are_found_and_a_first_batch_passes_unchanged(
    layer: nn.GroupNorm | nn.LayerNorm, shape: tuple[int, ...], axis: int
) -> None:
    inputs = features(*shape)
    assert channel_axis(layer, inputs) == axis
    network = aligned(copy.deepcopy(layer))
    torch.testing.assert_close(network(inputs), layer.double()(inputs))
    axes = [dimension for dimension in range(len(shape)) if dimension != axis]
    torch.testing.assert_close(network[0].alignment.source_mean, inputs.mean(axes))


def test_what_tells_two_domains_apart_is_taken_out() -> None:
    layer = nn.LayerNorm(4).double()
    network = aligned(copy.deepcopy(layer))
    domains = Domains(network, "0", num_classes=2)
    one = features(64, 5, 4)
    other = one * torch.tensor([2.0, 1.0, 1.0, 0.5]) + torch.tensor([0.0, 3.0, -3.0, 0.0])
    labels = torch.arange(64) % 2

    def predict(inputs: Tensor, taught: Tensor | None) -> Tensor:
        with nullcontext() if taught is None else given_labels(network, taught):
            network(inputs)
        with domains.apart(taught):
            normalised: Tensor = network(inputs)
        return normalised

    for _ in range(30):
        predict(one, labels)
        predict(other, labels)
    gap = (predict(one, None) - predict(other, None)).abs().mean()
    assert gap < 0.25 * (layer(one) - layer(other)).abs().mean()


def test_a_single_domain_stays_as_it_is() -> None:
    generator = torch.Generator().manual_seed(0)
    network = nn.Sequential(nn.Conv2d(3, 4, 3), nn.GroupNorm(2, 4), nn.Flatten(), nn.Linear(4 * 36, 3)).eval()
    model = adapt(network, "bdn", filter="off", example=torch.zeros(1, 3, 8, 8))
    for _ in range(5):
        batch = torch.rand(32, 3, 8, 8, generator=generator)
        gap = (model(batch) - network(batch).log_softmax(1)).abs().max()
        assert gap < 0.1


def test_a_first_batch_that_is_not_finite_is_predicted_by_the_source() -> None:
    network = tiny_resnet("group")
    inputs = torch.rand(4, 3, 16, 16, generator=torch.Generator().manual_seed(0))
    inputs[0, 0, 0, 0] = torch.nan
    expected = network(inputs.nan_to_num(0.0)).log_softmax(1)
    torch.testing.assert_close(adapt(network, "bdn")(inputs), expected)


def test_torch_transformer_layers_do_not_pass_it_by() -> None:
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, dropout=0.0)
    network = nn.Sequential(nn.TransformerEncoder(layer, 2), nn.Flatten(), nn.Linear(40, 3)).eval()
    inputs = features(6, 5, 8).float()
    model = adapt(network, "bdn", example=inputs)
    model(inputs)
    aligned = [part for part in model.modules() if isinstance(part, Aligned)]
    assert len(aligned) == 4
    assert all(part.alignment.source_var.any() for part in aligned)
