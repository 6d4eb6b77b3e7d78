"""A service says that it predicts as the source does without source samples, and takes a card for its network alone."""

from __future__ import annotations

import logging
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch

import holdfast
from holdfast.models.tiny import tiny_resnet
from holdfast.records import SetupWarning
from holdfast.serve.app import create_app
from holdfast.serve.audit import read_audit
from holdfast.serve.build import build_service
from holdfast.serve.limits import Limits
from holdfast.serve.page import page
from holdfast.serve.replaying import replay_served
from holdfast.serve.service import Service
from tests.serve.conftest import BUILDING, batches


@pytest.fixture
def card(tmp_path: Path) -> str:
    path = tmp_path / "tiny.card"
    holdfast.make_card(tiny_resnet(), [batches(1, 64, seed=5)[0]]).save(path)
    return str(path)


def serve(folder: Path, **options: Any) -> Service:
    with warnings.catch_warnings():
        warnings.simplefilter("error", SetupWarning)  # the service says it once, in its log
        return build_service({**BUILDING, **options}, folder=folder, limits=Limits())


def test_a_service_without_source_samples_says_once_that_it_serves_the_source(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    from fastapi.testclient import TestClient

    with caplog.at_level(logging.WARNING), TestClient(create_app(serve(tmp_path / "state"))) as client:
        note = client.get("/v1/status").json()["model"]["note"]
        inputs = batches(1)[0]
        served = client.post("/v1/predict?logits=1", json={"inputs": inputs.tolist()}).json()
    assert "predicts as the source does; start it with --card or --holdout" in note
    assert [record.getMessage() for record in caplog.records] == [note]
    assert served["classes"] == tiny_resnet()(inputs).argmax(1).tolist()
    assert next(iter(read_audit(tmp_path / "state" / "audit.db"))).reason.endswith(note)
    assert b"status.model.note" in page()


def test_a_card_is_followed_also_when_what_was_served_is_replayed(
    tmp_path: Path, card: str, caplog: pytest.LogCaptureFixture
) -> None:
    from fastapi.testclient import TestClient

    service = serve(tmp_path / "state", card=card)
    assert service.tenants.model.method.referred
    with TestClient(create_app(service)) as client:
        assert client.get("/v1/status").json()["model"]["note"] is None
        for inputs in 0.4 * batches(4):
            client.post("/v1/predict", json={"inputs": inputs.tolist()})
    assert not caplog.records
    with warnings.catch_warnings():
        warnings.simplefilter("error", SetupWarning)  # it would say that there are no source samples
        (again,) = (one for one in replay_served(tmp_path / "state", methods=["blend"]) if one.name == "blend")
    assert again.as_served == 100


def test_restored_tenants_keep_the_samples_that_they_began_with_and_the_log_says_so(
    tmp_path: Path, card: str, caplog: pytest.LogCaptureFixture
) -> None:
    for given, messages in ((None, 1), (card, 1), (card, 0)):  # the first says that there are no samples
        caplog.clear()
        service = serve(tmp_path / "state", card=given)
        service.tenants.step("north", batches(1)[0])
        service.stop()
        assert len(caplog.records) == messages, caplog.records
    assert not service.tenants.model.method.referred  # by the tenant's state


def test_a_card_of_other_weights_is_refused_at_the_start(tmp_path: Path, card: str) -> None:
    holdfast.make_card(tiny_resnet(seed=1), [torch.rand(8, 3, 32, 32)]).save(card)
    with pytest.raises(ValueError, match="the card belongs to a network with other weights"):
        serve(tmp_path / "state", card=card)
