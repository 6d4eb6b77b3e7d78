"""Unusual networks: each is wrapped without changing its logits and takes a step, or is refused with a remedy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils import parametrizations, parametrize
from torch.utils.checkpoint import checkpoint

from holdfast.diagnosis import doctor
from holdfast.model.adapt import adapt
from holdfast.models.base import seeded_weights

METHODS = ("source", "batch_norm", "tent", "unitta_auto")


def images(samples: int = 8) -> Tensor:
    return torch.rand(samples, 3, 16, 16, generator=torch.Generator().manual_seed(1))


def tokens() -> Tensor:
    return torch.randint(50, (8, 12), generator=torch.Generator().manual_seed(1))


def chain(*layers: nn.Module) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(3, 8, 3), *layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 7))


class Around(nn.Module):
    """A plain network inside another forward."""

    def __init__(self, forward: Callable[..., object], *norms: nn.Module) -> None:
        super().__init__()
        self.network = chain(*(norms or (nn.BatchNorm2d(8), nn.ReLU())))
        self.norm, self.own = nn.BatchNorm2d(8), forward  # the norm is for those who use it
        self.head = nn.Linear(8, 7)

    def forward(self, inputs: Any) -> object:
        return self.own(self, inputs)


def twice(net: Around, inputs: Tensor) -> object:
    """Use one layer twice."""
    maps = net.norm(net.norm(net.network[0](inputs)).relu_())
    return net.head(maps.mean((2, 3)))


def functional(net: Around, inputs: Tensor) -> object:
    """Pass the buffers of a layer to a function."""
    norm = net.norm
    maps = F.batch_norm(net.network[0](inputs), norm.running_mean, norm.running_var, norm.weight, norm.bias)
    return net.head(maps.relu().mean((2, 3)))


def by_type(net: Around, inputs: Tensor) -> object:
    """Call only layers of torch's own type."""
    maps = net.network[0](inputs)
    for part in net.children():
        if type(part) is nn.BatchNorm2d:
            maps = part(maps)
    return net.head(maps.mean((2, 3)))


def without_gradient(net: Around, inputs: Tensor) -> object:
    with torch.no_grad():
        return net.network(inputs)


class Keyword(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.network = chain(nn.BatchNorm2d(8), nn.ReLU())

    def forward(self, *, pixel_values: Tensor) -> Mapping[str, Tensor]:
        return {"logits": self.network(pixel_values)}


class Tokens(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table, self.norm, self.head = nn.Embedding(50, 8), nn.BatchNorm1d(8), nn.Linear(8, 5)

    def forward(self, indices: Tensor) -> Tensor:
        logits: Tensor = self.head(self.norm(self.table(indices).transpose(1, 2)).mean(2))
        return logits


class Pair(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.network = plain()

    def forward(self, one: Tensor, other: Tensor) -> Tensor:
        logits: Tensor = self.network(one) + self.network(other)
        return logits


class Volume(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm, self.head = nn.Conv3d(1, 4, 3), nn.BatchNorm3d(4), nn.Linear(4, 5)

    def forward(self, volumes: Tensor) -> Tensor:
        logits: Tensor = self.head(self.norm(self.first(volumes)).relu().mean((2, 3, 4)))
        return logits


def sharing_weights() -> nn.Module:
    net = chain(nn.BatchNorm2d(8), nn.ReLU(), nn.BatchNorm2d(8))
    net[3].weight, net[3].bias = net[1].weight, net[1].bias
    return net


def with_parametrizations() -> nn.Module:
    net = chain(nn.BatchNorm2d(8), nn.ReLU())
    parametrizations.weight_norm(net[0])
    parametrizations.spectral_norm(net[-1])
    parametrize.register_parametrization(net[1], "weight", nn.Softplus())
    return net


def plain() -> nn.Sequential:
    return chain(nn.BatchNorm2d(8), nn.ReLU())


@dataclass(frozen=True)
class Case:
    """A network, its inputs, and what each method that refuses it says."""

    build: Callable[[], nn.Module]
    inputs: Callable[[], Tensor] = images
    call: Callable[[nn.Module, Tensor], Any] = lambda net, batch: net(batch)
    options: Mapping[str, Any] = field(default_factory=dict)
    refused: Mapping[str, str] = field(default_factory=dict)  # by method; "adapting" are all but the source


NO_GRADIENT = "no gradient reaches the weights of Around.*use_reentrant=True"

CASES = {
    "a layer used twice": Case(lambda: Around(twice)),
    "functional batch norm": Case(
        lambda: Around(functional), refused={"adapting": "uses the statistics of 'norm' without calling the layer"}
    ),
    "layers by type": Case(lambda: Around(by_type), refused={"adapting": "'norm' is no longer called"}),
    "layers never called": Case(lambda: Around(lambda net, batch: net.network(batch))),
    "no affine parameters": Case(
        lambda: chain(nn.BatchNorm2d(8, affine=False), nn.ReLU()),
        refused={"tent": "no normalisation layer with affine"},
    ),
    "no running statistics": Case(
        lambda: chain(nn.BatchNorm2d(8, track_running_stats=False)),
        refused={"adapting": r"layer '1' \(BatchNorm2d\) keeps no running statistics.*track_running_stats=True"},
    ),
    "momentum None": Case(lambda: chain(nn.BatchNorm2d(8, momentum=None))),
    "shared affine parameters": Case(sharing_weights),
    "parametrizations": Case(with_parametrizations),
    "frozen weights": Case(lambda: plain().requires_grad_(False)),
    "in-place operations": Case(lambda: chain(nn.BatchNorm2d(8), nn.ReLU(True), nn.BatchNorm2d(8), nn.SiLU(True))),
    "channels last": Case(
        lambda: plain().to(memory_format=torch.channels_last),
        lambda: images().to(memory_format=torch.channels_last),
    ),
    "double precision": Case(lambda: plain().double(), lambda: images().double()),
    "half precision": Case(
        lambda: plain().half(), lambda: images().half(), refused={"tent": "float16 weights cannot be trained"}
    ),
    "checkpointing": Case(
        lambda: Around(lambda net, batch: checkpoint(net.network, batch, use_reentrant=False)),
    ),
    "no gradient": Case(lambda: Around(without_gradient), refused={"tent": NO_GRADIENT}),
    "a tuple in training mode": Case(
        lambda: Around(lambda net, batch: (net.network(batch), None) if net.training else net.network(batch))
    ),
    "random draws": Case(
        lambda: Around(lambda net, batch: net.network(F.dropout(batch, 0.3))),
        call=lambda net, batch: net(batch),
    ),
    "volumes": Case(Volume, lambda: torch.rand(4, 1, 8, 8, 8), options={"example": torch.zeros(1, 1, 8, 8, 8)}),
    "data parallel": Case(lambda: nn.DataParallel(plain())),
    "data parallel inside": Case(lambda: nn.Sequential(nn.DataParallel(plain()[:2]), *plain()[2:])),
    "token indices": Case(Tokens, tokens),
    "token indices by example": Case(Tokens, tokens, options={"example": tokens()[:1]}),
    "bytes": Case(
        lambda: Around(lambda net, batch: net.network(batch.bitwise_not().float() / 255)),
        lambda: (255 * images()).byte(),
    ),
    "a keyword": Case(Keyword, call=lambda net, batch: net(pixel_values=batch)["logits"]),
    "a mapping": Case(
        lambda: Around(lambda net, batch: net.network(batch["image"])),
        call=lambda net, batch: net({"image": batch}),
        options={"example": {"image": images(1)}},
    ),
    "lazy layers": Case(
        lambda: nn.Sequential(nn.LazyConv2d(8, 3), *plain()[1:]), refused={"source": "'0.weight' has no values yet"}
    ),
    "TorchScript": Case(
        lambda: torch.jit.script(plain()), refused={"source": "TorchScript networks cannot be adapted"}
    ),
    "TorchScript inside": Case(
        lambda: nn.Sequential(torch.jit.script(plain()[:2]), *plain()[2:]),
        refused={"source": "'0' is TorchScript, whose layers are fixed"},
    ),
    "two inputs": Case(Pair, refused={"source": "Pair takes 2 inputs, one, other, and one tensor is predicted"}),
    "old weight norm": Case(
        lambda: nn.Sequential(nn.utils.weight_norm(nn.Conv2d(3, 8, 3)), *plain()[1:]),
        refused={"source": "cannot be copied .*parametrizations"},
    ),
}


def network(case: Case) -> nn.Module:
    """Return the network in eval mode with random running statistics."""
    with seeded_weights(0):
        net = case.build().eval()
        for name, buffer in net.named_buffers():
            if name.endswith("running_mean") and not nn.parameter.is_lazy(buffer):
                buffer.normal_(0, 0.1)
    return net


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")  # of torch's older parts
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", CASES)
def test_unusual_networks_are_wrapped_right_or_refused(name: str, method: str) -> None:
    case = CASES[name]
    refusal = case.refused.get(method) or case.refused.get("source" if method == "source" else "adapting")
    refusal = refusal or case.refused.get("source")
    net, batch = network(case), case.inputs()
    if refusal is not None:
        with pytest.raises(ValueError, match=refusal):
            adapt(net, method, **case.options)
        return
    model = adapt(net, method, **case.options)
    step = model.step(batch)
    assert step.skipped is None
    assert torch.isfinite(step.logits).all()
    assert model.step(batch).skipped is None
    if method == "source":
        with torch.no_grad(), seeded_weights(5):
            expected = case.call(net, batch)
        with seeded_weights(5):
            assert torch.equal(model(batch), expected)


def test_integers_of_the_wrong_kind_are_explained() -> None:
    model = adapt(Tokens().eval(), "tent")
    with pytest.raises(ValueError, match=r"^inputs are torch.float32, and the model takes torch.int64; pass inputs.to"):
        model(tokens().float())


def test_source_batches_show_that_a_network_takes_integers() -> None:
    class Fixed(Tokens):
        def forward(self, indices: Tensor) -> Tensor:
            assert indices.shape[1] == 12  # a length that probing does not guess
            return super().forward(indices)

    with pytest.raises(ValueError, match="does not accept any of the sizes tried"):
        adapt(Fixed().eval(), "tent")
    assert adapt(Fixed().eval(), "eata", source=[tokens()]).step(tokens()).skipped is None


@pytest.mark.parametrize("method", ["cotta", "roid", "rotta", "tribe", "conmix"])
def test_methods_with_views_refuse_integers_before_the_first_batch(method: str) -> None:
    with pytest.raises(ValueError, match=r"choose .*(identity|without views)"):
        adapt(Tokens().eval(), method, example=tokens())


def test_adv_perturb_refuses_integers() -> None:
    with pytest.raises(ValueError, match="choose another estimator"):
        adapt(Tokens().eval(), "tent", estimator="adv_perturb", example=tokens())


def test_loaders_may_return_mappings_with_labels() -> None:
    batch = {"pixel_values": images(), "labels": torch.zeros(8, dtype=torch.long)}
    model = adapt(Keyword().eval(), "eata", estimator="source_validation", source=[batch], holdout=[batch])
    assert model.step(pixel_values=images()).estimates["source_validation"].unknown is None


def test_doctor_takes_networks_of_indices() -> None:
    diagnosis = doctor(Tokens().eval(), [(tokens(), torch.arange(8) % 5)], methods=["tent"])
    assert {finding.check for finding in diagnosis.failed} <= {"clean accuracy"}
    assert diagnosis.costs[-1].refused is None
