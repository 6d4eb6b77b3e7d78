"""How often the host waits for a device in a step: at most 3 times for methods like TENT, at most 8 for any.

The number must not grow with the layers of the network: a wait for each of them leaves a GPU idle most of the time.
"""

from __future__ import annotations

import copy
from collections import Counter
from typing import Any

import pytest
import torch
from torch import Tensor

from holdfast.estimators import ESTIMATORS
from holdfast.models.resnet import ResNet
from holdfast.models.tiny import tiny_resnet
from holdfast.recipes import adapt, recipe_names
from holdfast.recovery import RECOVERIES
from holdfast.testing.pretended_device import NAME, PretendedDevice

LIKE_TENT = ("source", "batch_norm", "tent", "come_tent", "rpl", "slr", "cpl", "zerosiam", "eta", "eata", "rdumb")
OPTIONS: dict[str, dict[str, Any]] = {
    "cotta": {"views": 2},
    "note": {"every_samples": 8},
    "rotta": {"every_samples": 8},
    "sotta": {"every_samples": 8, "min_confidence": 0.0},
    "guard": {"gate_every": 2},
}


def certain(network: ResNet) -> ResNet:
    """Return the network with certain predictions, which methods train on."""
    with torch.no_grad():
        network.fc.weight *= 30
    return network


@pytest.fixture(scope="module")
def batches() -> list[Tensor]:
    generator = torch.Generator().manual_seed(0)
    return [torch.rand(8, 3, 8, 8, generator=generator) for _ in range(2)]


def waits(network: ResNet, batches: list[Tensor], name: str, **options: Any) -> Counter[str]:
    """Return the waits of the host in the second step, by line."""
    labels = torch.arange(8)
    with PretendedDevice() as device:
        placed = [batch.to(NAME) for batch in batches]
        holdout = [(batch, labels.to(NAME)) for batch in placed]
        model = adapt(copy.deepcopy(network).to(NAME), name, source=placed, holdout=holdout, **options)
        model.step(placed[0])
        with device.counting() as found:
            assert model.step(placed[1]).skipped is None
    return found


@pytest.mark.parametrize("name", recipe_names())
def test_a_step_waits_a_few_times(name: str, batches: list[Tensor]) -> None:
    found = waits(certain(tiny_resnet()), batches, name, **OPTIONS.get(name, {}))
    limit = 3 if name in LIKE_TENT else 8
    assert sum(found.values()) <= limit, found


@pytest.mark.parametrize("name", ["tent", "anchor", "robust_bn", "tribe", "bdn", "unmix_tns", "delta", "guard"])
def test_the_waits_do_not_grow_with_the_layers(name: str, batches: list[Tensor]) -> None:
    small, large = (ResNet(widths=widths, num_classes=10).eval() for widths in ((8,), (8, 8, 8)))
    assert waits(large, batches, name) == waits(small, batches, name)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_an_estimator_adds_a_few_waits(name: str, batches: list[Tensor]) -> None:
    found = waits(tiny_resnet(), batches, "tent", estimator=name)
    assert sum(found.values()) <= 6, found


@pytest.mark.parametrize("name", RECOVERIES)
def test_a_recovery_adds_a_few_waits(name: str, batches: list[Tensor]) -> None:
    found = waits(tiny_resnet(), batches, "tent", recovery=name)
    assert sum(found.values()) <= 8, found


def test_the_waits_are_named_by_line() -> None:
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
            with device.counting() as found:
                wait()
            assert sum(found.values()) == 1
        with device.counting() as found:
            values[values > 0] = 0.0
            torch.where(values > 0, values, 1.0)
        assert not found
