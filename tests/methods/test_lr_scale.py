"""Every method that trains weights multiplies its learning rates by `lr_scale`."""

from __future__ import annotations

import pytest
import torch

from holdfast.methods import METHODS, Method
from holdfast.models import Classifier, tiny_resnet
from holdfast.registry import options_of

BATCHES = torch.rand(2, 8, 3, 16, 16, generator=torch.Generator().manual_seed(0))


def adapted(name: str, lr_scale: float) -> Method:
    """Return a method after two batches, with every learning-rate schedule switched on."""
    kind = METHODS[name]
    schedule = {"batches_per_epoch": 1} if "batches_per_epoch" in options_of(kind) else {}
    easily_confident = {"entropy_margin": 2.0, "redundancy_margin": 2.0, "min_confidence": 0.0, "every_samples": 8}
    options = {key: value for key, value in easily_confident.items() if key in options_of(kind)}
    method = kind(Classifier(tiny_resnet()), **schedule, **options)
    method.lr_scale = lr_scale
    for inputs in BATCHES:
        method.adapt(inputs, method.predict(inputs))
    return method


def moved(method: Method) -> bool:
    return any(
        not torch.equal(now, source) for now, source in zip(method.trained, method.source_weights(), strict=True)
    )


@pytest.mark.parametrize("name", METHODS.names())
def test_a_scale_of_zero_stops_training(name: str) -> None:
    assert not moved(adapted(name, lr_scale=0.0))


@pytest.mark.parametrize("name", METHODS.names())
def test_a_scale_of_one_trains(name: str) -> None:
    """Guards the test above: without an update, nothing would move at any scale."""
    method = adapted(name, lr_scale=1.0)
    assert moved(method) == bool(method.trained)
