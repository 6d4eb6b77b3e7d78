"""The public contracts over every registry, three normalisations and audio, so that new entries are tested."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from holdfast.estimators import ESTIMATORS, Estimator, Observation
from holdfast.methods import METHODS, Method
from holdfast.model.adapt import adapt
from holdfast.models.tiny import tiny_amaut, tiny_resnet
from holdfast.recipes import recipe_names
from holdfast.records import Estimate
from holdfast.recovery import RECOVERIES
from holdfast.testing import METHOD_CHECKS, check_estimator, check_method, check_recovery

NORMS = ("batch", "group", "layer")
NETWORKS = (*NORMS, "audio")  # the last one has batch and layer normalisation
# Memories so small that they are replaced and trained on within a batch of eight, and fewer views, which are slow.
OPTIONS: dict[str, dict[str, Any]] = {
    "cotta": {"views": 2},
    "guard": {"base": "tent"},
    "note": {"capacity": 4, "every_samples": 4},
    "rotta": {"capacity": 4, "every_samples": 4},
    "sotta": {"capacity": 4, "every_samples": 4, "min_confidence": 0.1},
}


def each_on_one(names: list[str]) -> list[Any]:
    """Pair every name with every network: by default with one of them in turn, else slow."""
    return [
        pytest.param(name, network, marks=[] if network == NETWORKS[index % 4] else [pytest.mark.slow])
        for index, name in enumerate(names)
        for network in NETWORKS
    ]


@pytest.fixture(scope="module")
def batches() -> list[Tensor]:
    generator = torch.Generator().manual_seed(0)
    return [torch.rand(size, 3, 16, 16, generator=generator) for size in (8, 8, 5, 8)]


@pytest.fixture(scope="module")
def clips() -> list[Tensor]:
    generator = torch.Generator().manual_seed(0)
    return [torch.rand(size, 1_600, generator=generator) - 0.5 for size in (8, 8, 5, 8)]


@pytest.mark.parametrize(("name", "network"), each_on_one(recipe_names()))
def test_every_method_keeps_the_contracts(name: str, network: str, batches: list[Tensor], clips: list[Tensor]) -> None:
    if network == "audio":
        check_method(name, tiny_amaut(), clips, **OPTIONS.get(name, {}))
    else:
        check_method(name, tiny_resnet(network, widths=(8,)), batches, **OPTIONS.get(name, {}))


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("name", ESTIMATORS)
def test_every_estimator_keeps_the_contracts(name: str, norm: str, batches: list[Tensor]) -> None:
    check_estimator(name, tiny_resnet(norm, widths=(8,)), batches)


@pytest.mark.parametrize("name", RECOVERIES)
def test_every_recovery_keeps_the_contracts(name: str, batches: list[Tensor]) -> None:
    check_recovery(name, tiny_resnet(widths=(8,)), batches)


def test_only_batch_norm_refuses_networks_without_it(batches: list[Tensor]) -> None:
    refused = set()
    for name in recipe_names():
        try:
            adapt(tiny_resnet("layer", widths=(8,)), name, source=batches)
        except ValueError:
            refused.add(name)
    assert refused == {name for name in METHODS if METHODS[name].needs_batch_norm}


@pytest.mark.slow
def test_no_method_refuses_audio(clips: list[Tensor]) -> None:
    network = tiny_amaut()
    for name in recipe_names():
        adapt(network, name, source=clips)


class Forgetful(Method):
    """Violate one contract on purpose: undeclared state, global randomness, bad predictions, unexpected changes."""

    def __init__(self, model: nn.Module, *, fault: str) -> None:
        super().__init__(model)  # type: ignore[arg-type]
        self.fault = fault
        self.seen = 0

    def predict(self, inputs: Tensor) -> Tensor:
        logits = super().predict(inputs)
        self.seen += 1
        if self.fault == "undeclared state":
            return logits + self.seen
        if self.fault == "global randomness":
            return logits + torch.rand(())
        if self.fault == "infinite prediction":
            return logits / 0
        if self.fault == "changes its weights":
            with torch.no_grad():
                self.trained[0].add_(0.1)
        return logits


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("undeclared state", "reset"),
        ("global randomness", "differ"),
        ("infinite prediction", "non-finite"),
        ("changes its weights", "differ"),
    ],
)
def test_the_contracts_catch_a_method_that_breaks_them(fault: str, words: str, batches: list[Tensor]) -> None:
    with pytest.raises(AssertionError, match=words):
        check_method(Forgetful, tiny_resnet(), batches, fault=fault)


def test_the_contracts_catch_labels_among_the_arguments(batches: list[Tensor]) -> None:
    class Supervised(Method):
        def loss(self, inputs: Tensor, logits: Tensor, labels: Tensor | None = None) -> None:
            return None

    with pytest.raises(AssertionError, match="takes"):
        check_method(Supervised, tiny_resnet(), batches)


def test_the_contracts_are_all_run() -> None:
    from holdfast.testing import methods

    named = {name for name in vars(methods) if name.startswith("check_")} - {"check_method"}
    forgotten = named - {check.__name__ for check in METHOD_CHECKS}
    assert not forgotten, f"add {sorted(forgotten)} to METHOD_CHECKS in holdfast/testing/methods.py"


def test_a_network_may_bring_its_own_hooks(batches: list[Tensor]) -> None:
    network, calls = tiny_resnet(), []
    network.fc.register_forward_pre_hook(lambda *_: calls.append(1))
    check_estimator("aetta", network, batches)
    assert calls


def test_the_contracts_catch_an_estimator_that_leaves_hooks(batches: list[Tensor]) -> None:
    class Hooking(Estimator):
        def estimate(self, seen: Observation) -> Estimate:
            seen.model.register_forward_hook(lambda *_: None)
            return Estimate(0.5)

    with pytest.raises(AssertionError, match="left hooks"):
        check_estimator(Hooking(), tiny_resnet(), batches)
