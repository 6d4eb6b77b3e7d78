"""NOTE, RoTTA and SoTTA train on their memory at the configured interval."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch

from holdfast.model.adapt import adapt
from holdfast.model.adapted import AdaptedModel
from holdfast.models.tiny import tiny_resnet

BATCH = torch.rand(32, 3, 16, 16, generator=torch.Generator().manual_seed(0))
OPTIONS: dict[str, dict[str, Any]] = {"note": {}, "rotta": {}, "sotta": {"min_confidence": 0.0}}


@pytest.fixture(params=OPTIONS)
def model(request: pytest.FixtureRequest) -> AdaptedModel:
    return adapt(tiny_resnet(), request.param, capacity=8, every_samples=8, **OPTIONS[request.param])


def test_it_may_adapt_later_without_the_prediction_and_its_graph(model: AdaptedModel) -> None:
    twin = copy.deepcopy(model.method)
    model(BATCH)
    with torch.no_grad():
        assert twin.adapt(BATCH).loss is not None
    assert all(torch.equal(one, other) for one, other in zip(model.method.trained, twin.trained, strict=True))


def test_frozen_it_learns_nothing(model: AdaptedModel) -> None:
    method: Any = model.method
    method.pause()
    before = {name: tensor.clone() for name, tensor in method.moving().items()}
    method.adapt(BATCH)
    assert method.batches == method.memory.offers == 0
    assert all(torch.equal(before[name], tensor) for name, tensor in method.moving().items())
