"""Methods, estimators and recoveries on a pretended device: nothing stays on the CPU, and the host waits rarely.

In a step the host waits for the device at most 3 times for methods like TENT and at most 8 times for any method,
however many layers the network has: a wait for each of them would leave a GPU idle most of the time. The exception is
PEA, which decomposes a covariance behind every block that it aligns.
"""

from __future__ import annotations

import copy
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from holdfast.estimators import ESTIMATORS
from holdfast.model.adapt import adapt
from holdfast.models.resnet import ResNet
from holdfast.models.tiny import tiny_resnet, tiny_vit
from holdfast.recipes import recipe_names, recipe_of
from holdfast.recovery import RECOVERIES
from tests.device.pretended_device import NAME, PretendedDevice

LIKE_TENT = (
    "source",
    "batch_norm",
    "tent",
    "come_tent",
    "rpl",
    "slr",
    "cpl",
    "zerosiam",
    "eta",
    "eata",
    "rdumb",
    "come_eata",
)
ANCHORED = ("anchor", "blend", "guard")  # methods that have an anchor, as the estimator of that name
OPTIONS: dict[str, dict[str, Any]] = {
    "cotta": {"views": 2},
    "note": {"every_samples": 8},
    "rotta": {"every_samples": 8},
    "sotta": {"every_samples": 8, "min_confidence": 0.0},
    "guard": {"base": "tent", "gate_every": 2},
}
DIAGONAL = [
    (
        name,
        "gde" if name in ANCHORED else list(ESTIMATORS)[index % len(ESTIMATORS)],
        list(RECOVERIES)[index % len(RECOVERIES)],
    )
    for index, name in enumerate(recipe_names())
]
CROSS = [(name, estimator, recovery) for name in ("roid",) for estimator in ESTIMATORS for recovery in RECOVERIES]


def certain() -> ResNet:
    """Return a network with certain predictions, so that methods that choose samples have some."""
    network = tiny_resnet(widths=(8,))
    with torch.no_grad():
        network.fc.weight *= 30
    return network


@pytest.fixture(scope="module")
def batches() -> list[Tensor]:
    generator = torch.Generator().manual_seed(0)
    return [torch.rand(8, 3, 8, 8, generator=generator) for _ in range(2)]


def check(batches: list[Tensor], state: Path, name: str, estimator: str, recovery: str) -> Counter[str]:
    """Compare steps, a loaded state and a reset with those on the CPU; return the waits of the second step by line.

    They agree but for rounding: the CPU has a kernel of its own for the moments of a batch.
    """
    network, labels = certain(), torch.arange(8)
    kinds: dict[str, Any] = {"estimator": estimator, "recovery": recovery, **OPTIONS.get(name, {})}
    if recipe_of(name).recovery != "never":
        del kinds["recovery"]  # it has one
    expected = adapt(network, name, source=batches, holdout=[(batch, labels) for batch in batches], **kinds)
    first, second = (expected.step(batch) for batch in batches)
    with PretendedDevice() as device:
        placed = [batch.to(NAME) for batch in batches]
        holdout = [(batch, labels.to(NAME)) for batch in placed]
        model = adapt(network.to(NAME), name, source=placed, holdout=holdout, **kinds)
        model.step(placed[0])
        model.save(state)
        with device.counting() as waits:
            step = model.step(placed[1])
        model.load(state)
        for later in (step, model.step(placed[1])):
            assert later.skipped == second.skipped
            assert later.loss == (second.loss and pytest.approx(second.loss, rel=1e-5))
            assert later.recovered == second.recovered
            torch.testing.assert_close(later.logits.cpu(), second.logits)
        model.reset()
        torch.testing.assert_close(model.step(placed[0]).logits.cpu(), first.logits)
    return waits


@pytest.mark.parametrize(("name", "estimator", "recovery"), DIAGONAL)
def test_a_method_runs_on_a_device_and_waits_rarely(
    name: str, estimator: str, recovery: str, batches: list[Tensor], tmp_path: Path
) -> None:
    waits = check(batches, tmp_path / "state", name, estimator, recovery)
    others = ("estimators/", "recovery/", *(() if name in ANCHORED else ("anchor/",)))
    own = sum(count for line, count in waits.items() if not line.startswith(others))
    assert own <= (3 if name in LIKE_TENT else 8), waits
    assert sum(waits.values()) - own <= 6, waits


@pytest.mark.slow
@pytest.mark.parametrize(("name", "estimator", "recovery"), CROSS)
def test_combinations_run_on_a_device(
    name: str, estimator: str, recovery: str, batches: list[Tensor], tmp_path: Path
) -> None:
    check(batches, tmp_path / "state", name, estimator, recovery)


@pytest.mark.parametrize("name", ["anchor", "tribe", "bdn"])
def test_the_waits_do_not_grow_with_the_layers(name: str, batches: list[Tensor]) -> None:
    counts = []
    for widths in ((8,), (8, 8, 8)):
        with PretendedDevice() as device:
            model = adapt(ResNet(widths=widths, num_classes=10).eval().to(NAME), name)
            with device.counting() as waits:
                model.step(batches[0].to(NAME))
        counts.append(sum(waits.values()))
    assert counts[0] == counts[1]


def test_pea_waits_once_more_for_each_block_that_it_aligns(batches: list[Tensor]) -> None:
    counts = []
    for widths in ((8, 8), (8, 8, 8, 8)):
        with PretendedDevice() as device:
            first, second = (batch.to(NAME) for batch in batches)
            model = adapt(ResNet(widths=widths, num_classes=10).eval().to(NAME), "pea", source=[second])
            with device.counting() as waits:
                model.step(first)
        counts.append(sum(waits.values()))
    assert counts == [5, 7]  # of two and four blocks, the nearest of which is never aligned


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


def test_waits_are_counted() -> None:
    with PretendedDevice() as device:
        values = torch.ones(3, device=NAME)
        for wait in (
            lambda: values.sum().item(),
            lambda: bool(values[0] > 0),
            lambda: values.nonzero(),
            lambda: values.cpu(),
            lambda: values.tolist(),
            lambda: torch.equal(values, values),
            lambda: values[values > 0],
        ):
            with device.counting() as counts:
                wait()
            assert sum(counts.values()) == 1
        with device.counting() as counts:
            values[values > 0] = 0.0
            torch.where(values > 0, values, 1.0)
        assert not counts


def test_a_transformer_runs_on_a_device(batches: list[Tensor]) -> None:
    with PretendedDevice():
        model = adapt(copy.deepcopy(tiny_vit(size=8)).to(NAME), "eta")
        assert model.step(batches[0].to(NAME)).skipped is None
