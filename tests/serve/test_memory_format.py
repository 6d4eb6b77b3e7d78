"""The memory format of images: measured at the start, the same in every part of a service."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from fastapi.testclient import TestClient
from torch import nn

from holdfast.models import memory_format
from holdfast.models.tiny import tiny_resnet
from holdfast.serve.app import create_app
from holdfast.serve.build import build_service
from holdfast.serve.limits import Limits
from holdfast.serve.replaying import replay_served
from tests.serve.conftest import batches

TINY = {"model": "imported:holdfast.models.tiny:tiny_resnet", "method": "tent", "guarded": False}


@pytest.mark.parametrize(("seconds", "expected"), [((4.0, 3.0), "channels_last"), ((4.0, 3.9), "contiguous")])
def test_the_format_that_is_clearly_faster_is_chosen(
    seconds: tuple[float, float], expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    network, clock = tiny_resnet(), [0.0]
    contiguous, channels_last = seconds

    class Timed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.network = network

        def forward(self, inputs: torch.Tensor) -> torch.Tensor:
            clock[0] += contiguous if inputs.is_contiguous() else channels_last
            return self.network(inputs)  # type: ignore[no-any-return]

    monkeypatch.setattr(memory_format.time, "perf_counter", lambda: clock[0])
    assert memory_format.faster_format(Timed(), torch.rand(2, 3, 32, 32)) == expected


@pytest.mark.parametrize("measured", ["channels_last", "contiguous"])
def test_a_service_lays_out_images_as_it_measured_and_replays_them_so(
    measured: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.serve.build.faster_format", lambda *_: measured)
    service = build_service({**TINY, "batch": 4, "store_inputs": True}, folder=tmp_path, limits=Limits())
    layouts, begin = [], service.tenants.model.begin

    def watched(inputs: torch.Tensor, **options: bool) -> object:
        layouts.append("contiguous" if inputs.is_contiguous() else "channels_last")
        return begin(inputs, **options)

    monkeypatch.setattr(service.tenants.model, "begin", watched)
    with TestClient(create_app(service)) as client:
        for batch in batches(3):
            assert client.post("/v1/predict", json={"inputs": batch.tolist()}).status_code == 200
        assert client.get("/v1/status").json()["model"]["memory_format"] == measured
    assert layouts == [measured] * 3
    assert json.loads((tmp_path / "building.json").read_text())["memory_format"] == measured
    again = replay_served(tmp_path, methods=["tent"])
    assert again[-1].as_served == 100.0


def test_a_format_that_is_given_is_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.serve.build.faster_format", lambda *_: pytest.fail("it was measured"))
    service = build_service({**TINY, "memory_format": "channels_last"}, folder=None, limits=Limits())
    assert service.placement.memory_format == "channels_last"
