"""Methods, estimators and recoveries on a pretended device: nothing stays on the CPU, and saved states load there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from holdfast.estimators import ESTIMATORS
from holdfast.models.resnet import ResNet
from holdfast.models.tiny import tiny_resnet, tiny_vit
from holdfast.recipes import adapt, recipe_names
from holdfast.recovery import RECOVERIES
from holdfast.testing.pretended_device import NAME, PretendedDevice

OPTIONS: dict[str, dict[str, Any]] = {
    "cotta": {"views": 2},
    "note": {"every_samples": 8},
    "rotta": {"every_samples": 8},
    "sotta": {"every_samples": 8, "min_confidence": 0.0},
    "guard": {"gate_every": 2},
}
DIAGONAL = [
    (name, list(ESTIMATORS)[place % len(ESTIMATORS)], list(RECOVERIES)[place % len(RECOVERIES)])
    for place, name in enumerate(recipe_names())
]
CROSS = [
    (name, estimator, recovery)
    for name in ("tent", "eta", "roid", "t3a", "guard", "rotta")
    for estimator in ESTIMATORS
    for recovery in RECOVERIES
]


@pytest.fixture(scope="module")
def batches() -> list[Tensor]:
    generator = torch.Generator().manual_seed(0)
    return [torch.rand(8, 3, 8, 8, generator=generator) for _ in range(3)]


def check(network: ResNet, batches: list[Tensor], folder: Path, name: str, estimator: str, recovery: str) -> None:
    """Compare steps, a loaded state, a reset and an export with those on the CPU."""
    labels = torch.arange(8)
    kinds: dict[str, Any] = {"estimator": estimator, "recovery": recovery, **OPTIONS.get(name, {})}
    if name in ("asr_eta", "asr_roid", "cotta", "rdumb", "sar", "come_sar"):
        del kinds["recovery"]  # recipes have one
    expected = adapt(network, name, source=batches, holdout=[(batch, labels) for batch in batches], **kinds)
    wanted = [expected.step(batch) for batch in batches]
    with PretendedDevice():
        placed = [batch.to(NAME) for batch in batches]
        holdout = [(batch, labels.to(NAME)) for batch in placed]
        there = network.to(NAME)
        model, other = (adapt(there, name, source=placed, holdout=holdout, **kinds) for _ in range(2))
        for place, batch in enumerate(placed):
            if place == 2:
                model.save(folder / "state")
                other.load(folder / "state")
                assert other.step(batch).skipped == wanted[place].skipped
            step = model.step(batch)
            assert step.skipped == wanted[place].skipped
            assert step.loss == wanted[place].loss
            assert torch.equal(step.logits.cpu(), wanted[place].logits)
        assert torch.equal(model.predict(placed[0]).logits.cpu(), other.predict(placed[0]).logits.cpu())
        model.reset()
        assert torch.equal(model.step(placed[0]).logits.cpu(), wanted[0].logits)


@pytest.mark.parametrize(("name", "estimator", "recovery"), DIAGONAL)
def test_a_method_runs_on_a_device(
    name: str, estimator: str, recovery: str, batches: list[Tensor], tmp_path: Path
) -> None:
    check(tiny_resnet(), batches, tmp_path, name, estimator, recovery)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "estimator", "recovery"), CROSS)
def test_combinations_run_on_a_device(
    name: str, estimator: str, recovery: str, batches: list[Tensor], tmp_path: Path
) -> None:
    check(tiny_resnet(), batches, tmp_path, name, estimator, recovery)


def test_the_device_refuses_what_a_gpu_refuses() -> None:
    with PretendedDevice():
        values = torch.ones(3, device=NAME)
        with pytest.raises(RuntimeError, match="found some on the CPU"):
            values + torch.ones(3)
        with pytest.raises(RuntimeError, match="generator"):
            torch.rand(3, device=NAME, generator=torch.Generator())
        with pytest.raises(TypeError, match="numpy"):
            values.numpy()
        assert (values + torch.tensor(1.0)).tolist() == [2.0, 2.0, 2.0]  # as on CUDA


def test_a_transformer_runs_on_a_device(batches: list[Tensor]) -> None:
    with PretendedDevice():
        model = adapt(tiny_vit(size=8).to(NAME), "eta")
        assert model.step(batches[0].to(NAME)).skipped is None
