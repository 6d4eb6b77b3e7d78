"""Layers with running statistics: replaced, wrapped from inside, or refused by name."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from holdfast.blocks.freezing import freeze_statistics
from holdfast.blocks.norm import BatchStatistics, NormLayer, batch_moments, source_statistics
from holdfast.blocks.wrapping import Restated, account, affine_parameters, replace_batch_norm
from holdfast.methods._proof import WrappingError
from holdfast.model.adapt import adapt


class WithActivation(nn.BatchNorm2d):
    """As timm's BatchNormAct2d: an activation inside."""

    def forward(self, features: Tensor) -> Tensor:
        return F.silu(super().forward(features))


class OwnArithmetic(nn.Module):
    """As torchvision's FrozenBatchNorm2d, with an activation: buffers, and no call of batch_norm."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.eps = 1e-3
        for name in ("running_mean", "running_var", "weight", "bias"):
            self.register_buffer(name, torch.rand(channels) + 0.5)

    def forward(self, features: Tensor) -> Tensor:
        scale = (self.weight * (self.running_var + self.eps).rsqrt()).view(-1, 1, 1)
        return F.relu(features * scale + self.bias.view(-1, 1, 1) - self.running_mean.view(-1, 1, 1) * scale)


class HalfNormalised(nn.BatchNorm2d):
    """Divides by the running variance and ignores the mean: not BatchNorm."""

    def forward(self, features: Tensor) -> Tensor:
        return features / (self.running_var.view(-1, 1, 1) + self.eps).sqrt()


class EvoLike(nn.Module):
    """As EvoNorm B0: a running variance and no mean."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(channels)), nn.Parameter(torch.zeros(channels))
        self.register_buffer("running_var", torch.ones(channels))

    def forward(self, features: Tensor) -> Tensor:
        return features / self.running_var.view(-1, 1, 1).sqrt()


EvoLike.__name__ = "EvoNorm2dB0"


def network(layer: nn.Module) -> nn.Module:
    """Return a small classifier around a layer of eight channels, with statistics that are not the defaults."""
    made = nn.Sequential(nn.Conv2d(3, 8, 3), layer, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 5)).eval()
    generator = torch.Generator().manual_seed(0)
    for part in made.modules():
        for name, buffer in part.named_buffers(recurse=False):
            if name in ("running_mean", "running_var"):
                buffer.copy_(torch.rand(buffer.shape, generator=generator) + 0.2)
    return made


def with_hook(layer: nn.Module) -> nn.Module:
    layer.register_forward_hook(double)
    return layer


def double(_layer: nn.Module, _args: tuple[Tensor], output: Tensor) -> Tensor:
    return 2 * output


@pytest.fixture
def inputs() -> Tensor:
    return torch.rand(6, 3, 12, 12, generator=torch.Generator().manual_seed(1))


LAYERS = {
    "exact": (lambda: nn.BatchNorm2d(8), "replaced"),
    "sync": (lambda: nn.SyncBatchNorm(8), "replaced"),
    "no affine": (lambda: nn.BatchNorm2d(8, affine=False), "replaced"),
    "subclass": (lambda: WithActivation(8), "wrapped"),
    "own arithmetic": (lambda: OwnArithmetic(8), "wrapped"),
    "hook": (lambda: with_hook(nn.BatchNorm2d(8)), "wrapped"),
    "not BatchNorm": (lambda: HalfNormalised(8), "refused"),
    "evonorm": (lambda: EvoLike(8), "untouched"),
    "group": (lambda: nn.GroupNorm(2, 8), "untouched"),
    "rms": (lambda: nn.RMSNorm([8, 10, 10]), "untouched"),
}


@pytest.mark.parametrize("name", LAYERS)
def test_every_layer_is_accounted_for(name: str) -> None:
    build, treatment = LAYERS[name]
    (layer,) = account(network(build()))
    assert (layer.name, layer.treatment) == ("1", treatment)
    assert layer.reason


@pytest.mark.parametrize(
    "name", [name for name, (_, treatment) in LAYERS.items() if treatment in ("replaced", "wrapped")]
)
def test_with_source_statistics_the_network_is_bit_equal(name: str, inputs: Tensor) -> None:
    source = network(LAYERS[name][0]())
    prepared = copy.deepcopy(source)
    assert replace_batch_norm(prepared, BatchStatistics) == 1
    assert sum(isinstance(part, NormLayer) for part in prepared.modules()) == 1
    with torch.no_grad():
        assert not torch.allclose(prepared(inputs), source(inputs), atol=1e-4)
        with source_statistics(prepared):
            assert torch.equal(prepared(inputs), source(inputs))


@pytest.mark.parametrize("name", ["subclass", "own arithmetic", "hook"])
def test_a_wrapped_layer_normalises_as_if_it_stored_these_statistics(name: str, inputs: Tensor) -> None:
    source = network(LAYERS[name][0]())
    prepared = copy.deepcopy(source)
    replace_batch_norm(prepared, BatchStatistics)
    mean, var = batch_moments(source[0](inputs).detach(), unbiased=False)
    source[1].running_mean.copy_(mean), source[1].running_var.copy_(var)
    assert torch.allclose(prepared(inputs), source(inputs), atol=1e-5)


def test_a_wrapped_layer_still_is_what_it_was(inputs: Tensor) -> None:
    prepared = network(WithActivation(8))
    layer = prepared[1]
    replace_batch_norm(prepared, BatchStatistics)
    assert isinstance(prepared[1], Restated)
    assert prepared[1].running_mean is layer.running_mean
    assert [
        parameter is own for parameter, own in zip(affine_parameters(prepared), (layer.weight, layer.bias), strict=True)
    ]
    for copied in (copy.deepcopy(prepared), pickle.loads(pickle.dumps(prepared))):
        assert torch.equal(copied(inputs), prepared(inputs))


def test_networks_may_read_the_buffers_of_a_replaced_layer(inputs: Tensor) -> None:
    class Reads(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.bn, self.fc = nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.Linear(8, 5)

        def forward(self, inputs: Tensor) -> Tensor:
            bn = self.bn
            maps = F.batch_norm(
                self.conv(inputs), bn.running_mean, bn.running_var, bn.weight, bn.bias, False, 0.0, bn.eps
            )
            return self.fc(bn(maps).mean((2, 3)))

    source = Reads().eval()
    model = adapt(source, "tent")
    model(inputs)
    model.reset()
    with source_statistics(model), torch.no_grad():
        assert torch.equal(model.method.model(inputs), source(inputs))


def test_one_layer_in_two_places_stays_one() -> None:
    shared = nn.BatchNorm2d(8)
    prepared = nn.Sequential(nn.Conv2d(3, 8, 3), shared, nn.Sequential(shared), shared)
    assert replace_batch_norm(prepared, BatchStatistics) == 1
    assert prepared[1] is prepared[2][0] is prepared[3]


@pytest.mark.parametrize("method", ["tent", "batch_norm", "robust_bn", "unitta", "cotta"])
def test_a_layer_that_is_not_batch_norm_is_refused_by_name(method: str) -> None:
    with pytest.raises(
        ValueError, match=r"layer '1' \(HalfNormalised\) .* does not use them as BatchNorm does; .*'neo'"
    ):
        adapt(network(HalfNormalised(8)), method)
    assert adapt(network(HalfNormalised(8)), "neo")(torch.rand(4, 3, 12, 12)).shape == (4, 5)


@pytest.mark.filterwarnings("ignore:`torch.jit")
def test_torchscript_is_refused() -> None:
    example = torch.rand(2, 3, 12, 12)
    with pytest.raises(ValueError, match=r"TorchScript networks cannot be adapted"):
        adapt(torch.jit.trace(network(nn.BatchNorm2d(8)), example), "tent", example=example)


def test_a_method_that_breaks_the_network_is_refused_and_the_layer_named() -> None:
    from holdfast.methods.tent import Tent

    class Careless(Tent):
        def prepare(self, model: nn.Module) -> list[nn.Parameter]:
            trained = super().prepare(model)
            model.module[2] = nn.AdaptiveMaxPool2d(1)
            return trained

    with pytest.raises(WrappingError, match=r"the first layer that differs is '2' \(AdaptiveMaxPool2d\)"):
        adapt(network(nn.BatchNorm2d(8)), Careless)


@pytest.mark.parametrize("name", ["exact", "subclass", "own arithmetic"])
def test_frozen_statistics_are_those_of_the_batch_and_the_layers_are_plain(name: str, inputs: Tensor) -> None:
    prepared = network(LAYERS[name][0]())
    replace_batch_norm(prepared, BatchStatistics)
    expected = prepared(inputs)
    freeze_statistics(prepared, inputs)
    assert not any(isinstance(part, (NormLayer, Restated)) for part in prepared.modules())
    assert torch.allclose(prepared(inputs), expected, atol=1e-5)
    assert torch.allclose(prepared(inputs[:1]), expected[:1], atol=1e-5)


def test_layers_without_stored_statistics_ask_for_inputs() -> None:
    prepared = network(nn.BatchNorm2d(8))
    replace_batch_norm(prepared, BatchStatistics)
    with pytest.raises(ValueError, match="pass inputs="):
        freeze_statistics(prepared)
