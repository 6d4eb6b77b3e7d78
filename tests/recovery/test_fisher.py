"""Fisher restoration against weights recorded from the official code."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from holdfast.model.adapt import adapt
from holdfast.models.tiny import tiny_resnet
from holdfast.records import Step
from holdfast.recovery.fisher import Fisher, quantile

GOLDEN = Path(__file__).parents[1] / "estimators" / "aetta_golden.npz"
LEARNT = Step(torch.zeros(1, 1), loss=0.5)


class Weights:
    """The recorded parameters that are trained, with gradients, and their source values."""

    def __init__(self, golden: np.lib.npyio.NpzFile) -> None:
        trained = golden["restore_param_names"][golden["restore_requires_grad"]]
        self.names = [str(name) for name in trained]
        self.trained = [nn.Parameter(torch.from_numpy(golden[f"restore_current_{name}"])) for name in self.names]
        self.sources = [torch.from_numpy(golden[f"restore_source_{name}"]) for name in self.names]
        for name, weight in zip(self.names, self.trained, strict=True):
            weight.grad = torch.from_numpy(golden[f"restore_grad_{name}"])

    def reset(self) -> None:
        raise AssertionError("a share of the weights was asked for, not all")

    @torch.no_grad()
    def restore(self, mask: Callable[[Tensor, Tensor | None], Tensor]) -> None:
        for weight, source in zip(self.trained, self.sources, strict=True):
            weight.copy_(torch.where(mask(weight, weight.grad), source, weight))


@pytest.mark.parametrize("share", [0.03, 0.5])
def test_the_recorded_weights_go_back(share: float) -> None:
    with np.load(GOLDEN, allow_pickle=False) as golden:
        method = Weights(golden)
        assert Fisher(restore_share=share).recover(method, LEARNT) is None  # type: ignore[arg-type]
        for name, weight in zip(method.names, method.trained, strict=True):
            np.testing.assert_array_equal(weight.detach(), golden[f"fisher_{share}_{name}"])


def test_quantiles_are_the_recorded_ones() -> None:
    with np.load(GOLDEN, allow_pickle=False) as golden:
        values = torch.from_numpy(golden["quantile_input"])
        for share in (0.0, 0.03, 0.25, 0.5, 0.9):
            assert float(quantile(values, share)) == pytest.approx(golden[f"quantile_{share}"], rel=1e-6)
    assert float(quantile(torch.tensor([3.0]), 0.03)) == 3.0


def test_nothing_goes_back_where_nothing_was_learnt() -> None:
    with np.load(GOLDEN, allow_pickle=False) as golden:
        method = Weights(golden)
    before = [weight.detach().clone() for weight in method.trained]
    Fisher(restore_share=1.0).recover(method, Step(torch.zeros(1, 1)))  # type: ignore[arg-type]
    for weight in method.trained:
        weight.grad = None
    Fisher(restore_share=1.0).recover(method, LEARNT)  # type: ignore[arg-type]
    assert all(torch.equal(left, right) for left, right in zip(before, method.trained, strict=True))


def test_it_holds_a_method_back() -> None:
    inputs = torch.rand(8, 3, 16, 16, generator=torch.Generator().manual_seed(0))
    model, free = (
        adapt(tiny_resnet(), "tent", recovery="fisher", restore_share=0.5, lr=0.1),
        adapt(tiny_resnet(), "tent", lr=0.1),
    )
    model(inputs), free(inputs)
    pairs = list(zip(model.method.trained, model.method.source_weights(), free.method.trained, strict=True))
    restored = torch.cat([weight.detach() == source for weight, source, _ in pairs]).float().mean()
    kept = torch.cat([weight.detach() == adapted.detach() for weight, _, adapted in pairs]).float().mean()
    assert float(restored) == pytest.approx(0.5, abs=0.15)
    assert float(kept) == pytest.approx(0.5, abs=0.15)
