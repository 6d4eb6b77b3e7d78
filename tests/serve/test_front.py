"""Several replicas behind one front: every tenant has one place, and the answers are those of a single service."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from typer.testing import CliRunner

from holdfast import adapt
from holdfast.cli import app as commands
from holdfast.machine.folders import InUseError, held
from holdfast.serve.audit import verify_audit
from holdfast.serve.forwarding import Call
from holdfast.serve.front import create_front
from holdfast.serve.limits import Limits
from holdfast.serve.merging import merged_status
from holdfast.serve.service import Service
from holdfast.serve.state_folder import audit_logs, divided_among, shard_folder, shard_of, sign
from holdfast.serve.tenants import Tenants
from tests.serve.bodies import NPY, npy
from tests.serve.conftest import Parts, batches, network, wait_until

TENANTS = ("north", "south", "west")
TOKEN = "a-token-of-sixteen-characters"


@pytest.fixture
def client(parts: Parts) -> Iterator[Any]:
    with TestClient(create_front(parts.reach, shards=2, limits=Limits(body_bytes=2**20))) as client:
        yield client


def owner(parts: Parts, tenant: str) -> Service:
    return parts.services[shard_of(tenant, 2)]


@pytest.mark.parametrize("way", ["header", "path", "query"])
def test_each_tenant_is_predicted_by_its_own_replica_as_if_it_were_alone(client: Any, parts: Parts, way: str) -> None:
    for tenant in TENANTS:
        model = adapt(network(), "tent")
        headers = {**NPY, **({"X-Tenant": tenant} if way == "header" else {})}
        path = {"header": "/v1/predict?", "path": f"/v1/tenants/{tenant}/predict?"}.get(
            way, f"/v1/predict?tenant={tenant}&"
        )
        for batch in batches(2):
            prediction = client.post(f"{path}logits=1", content=npy(batch.numpy()), headers=headers).json()
            assert (prediction["tenant"], prediction["logits"]) == (tenant, model.step(batch).logits.tolist())
        assert owner(parts, tenant).tenants.status(tenant).digest == model.digest()
    assert {shard_of(tenant, 2) for tenant in TENANTS} == {0, 1}, "both replicas have work"
    assert client.get("/v1/status").json()["tenants"].keys() == set(TENANTS)


def test_actions_feedback_and_history_reach_the_same_replica(client: Any, parts: Parts) -> None:
    for tenant in TENANTS:
        client.post("/v1/predict", content=npy(batches(1)[0].numpy()), headers={**NPY, "X-Tenant": tenant})
        assert client.post("/v1/freeze", json={"tenant": tenant}).json()["kind"] == "freeze"
        assert owner(parts, tenant).tenants.status(tenant).frozen
        assert client.post(f"/v1/tenants/{tenant}/resume").json()["tenant"] == tenant
        assert len(client.post("/v1/export", headers={"X-Tenant": tenant}).content) > 1000
        wait_until(lambda tenant=tenant: len(client.get(f"/v1/tenants/{tenant}/history").json()) == 3)  # type: ignore[misc]
        kinds = [one["kind"] for one in client.get(f"/v1/tenants/{tenant}/history").json()]
        assert kinds == ["batch", "freeze", "resume"]
        one = client.get("/v1/status", headers={"X-Tenant": tenant}).json()["tenants"]
        assert list(one) == [tenant]
        refused = client.post("/v1/feedback", json={"id": f"{tenant}:0", "label": 1})
        assert "guarded" in refused.json()["error"], "it reached a tenant that takes no labels"


def test_what_is_wrong_is_refused_by_the_front_or_the_replica(client: Any) -> None:
    body = npy(batches(1)[0].numpy())
    for name in ("..%2Fetc", "a%20b", "x" * 65):
        assert client.post(f"/v1/tenants/{name}/predict", content=body, headers=NPY).status_code in (404, 422)
    assert client.post("/v1/predict", content=b"0" * 2**21, headers=NPY).status_code == 413
    assert client.post("/v1/predict", content=b"x", headers={"content-type": "text/html"}).status_code == 415
    assert client.post("/v1/feedback", json={"label": 1}).status_code == 422
    assert client.get("/v1/predict").status_code == 405
    assert client.get("/v1/nothing").status_code == 404
    assert client.get("/v1/status").json()["tenants"] == {}


def test_a_token_is_wanted_before_anything_reaches_a_replica(parts: Parts) -> None:
    parts.gone = {0, 1}
    with TestClient(create_front(parts.reach, shards=2, limits=Limits(), token=TOKEN)) as client:
        assert client.get("/v1/status").status_code == 401
        assert client.post("/v1/predict", content=b"x").status_code == 401
        assert client.get("/v1/status", headers={"Authorization": f"Bearer {TOKEN}"}).status_code == 503
        assert client.get("/").status_code == client.get("/healthz").status_code == 200


def test_one_replica_down_stops_its_own_tenants_only(client: Any, parts: Parts) -> None:
    parts.gone = {shard_of("north", 2)}
    south = next(name for name in TENANTS if shard_of(name, 2) not in parts.gone)
    sent = {"content": npy(batches(1)[0].numpy()), "headers": NPY}
    refused = client.post("/v1/tenants/north/predict", **sent)
    assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
    assert client.post(f"/v1/tenants/{south}/predict", **sent).status_code == 200
    assert client.get("/readyz").status_code == 503
    status = client.get("/v1/status").json()
    assert not status["ready"]
    assert sorted(one["ready"] for one in status["replicas"]) == [False, True]
    text = client.get("/metrics").text
    assert f'holdfast_samples_total{{replica="{1 - shard_of("north", 2)}",tenant="{south}"}} 4.0' in text
    assert text.count("# TYPE holdfast_samples_total") == 1


def test_states_move_when_the_number_of_replicas_changes(tmp_path: Path) -> None:
    tenants = Tenants(network(), "tent", guarded=False, folder=tmp_path)
    for index, name in enumerate(TENANTS):
        tenants.step(name, batches(1, seed=index)[0])
    digests = {name: tenants.status(name).digest for name in TENANTS}
    tenants.close()
    for shards in (2, 3):
        with divided_among(tmp_path, shards, tenants.model):
            with pytest.raises(InUseError):
                Tenants(network(), "tent", guarded=False, folder=tmp_path)
            for shard in range(shards):
                part = Tenants(network(), "tent", guarded=False, folder=shard_folder(tmp_path, shard))
                assert part.names() == sorted(name for name in TENANTS if shard_of(name, shards) == shard)
                assert all(part.status(name).digest == digests[name] for name in part.names())
                part.close()
    with held(shard_folder(tmp_path, 0)), pytest.raises(InUseError):  # a replica is alive
        Tenants(network(), "tent", guarded=False, folder=tmp_path)
    with pytest.raises(ValueError, match="another model, method or options"):
        Tenants(network(), "eta", guarded=False, folder=tmp_path)
    again = Tenants(network(), "tent", guarded=False, folder=tmp_path)
    assert {name: again.status(name).digest for name in again.names()} == digests
    again.close()


def test_the_logs_of_all_replicas_are_verified_together(tmp_path: Path) -> None:
    replicas = Parts(tmp_path)
    for service in replicas.services:
        service.start()
    for tenant in TENANTS:
        call = Call("POST", f"/v1/tenants/{tenant}/predict", headers=((b"content-type", b"application/x-npy"),))
        reply = asyncio.run(
            replicas.reach(shard_of(tenant, 2), Call(**{**vars(call), "body": npy(batches(1)[0].numpy())}))
        )
        assert reply.status == 200
    for service in replicas.services:
        service.stop()
    logs = audit_logs(tmp_path)
    assert len(logs) == 2
    shown = CliRunner().invoke(commands, ["audit", str(tmp_path), "--no-events"])
    assert shown.exit_code == 0, shown.output
    assert all(tenant in shown.output for tenant in TENANTS)
    assert all(verify_audit(path).head in shown.output for path in logs)
    logs[1].write_bytes(b"no database")
    shown = CliRunner().invoke(commands, ["audit", str(tmp_path)])
    assert shown.exit_code == 1
    assert "shard-1" in str(shown.exception)


def test_ray_is_named_when_it_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    command = ["serve", "digits_resnet", "--engine", "ray"]
    without_state = CliRunner().invoke(commands, command)
    assert "--state" in str(without_state.exception or without_state.output)
    result = CliRunner().invoke(commands, [*command, "--state", str(tmp_path)])
    assert result.exit_code != 0
    assert 'pip install "holdfast[serve,ray]"' in str(result.exception or result.output)


def test_both_engines_have_the_same_addresses_described_by_their_messages(parts: Parts) -> None:
    front = create_front(parts.reach, shards=2, limits=Limits())
    described = parts.apps[0].openapi()
    assert front.openapi() == described
    models = described["components"]["schemas"]
    assert {"Prediction", "Counted", "Status", "Decision", "Failure", "Readiness"} <= set(models)
    predict = described["paths"]["/v1/tenants/{tenant}/predict"]["post"]
    assert predict["responses"]["200"]["content"]
    assert {one["name"] for one in predict["parameters"]} == {"tenant", "x-tenant", "logits"}
    label = described["paths"]["/v1/feedback"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert set(label["properties"]) == {"id", "label", "correct"}


def test_objects_are_small_because_they_are_read_on_the_event_loop(client: Any) -> None:
    for path in ("/v1/reset", "/v1/feedback"):
        assert client.post(path, json={"tenant": "x" * 2**16}).status_code == 413


def test_the_queues_of_all_replicas_wait_together() -> None:
    part = {"ready": True, "learning_stopped": None, "audit": None, "tenants": {}}
    assert merged_status([{**part, "queue": 2}, {**part, "queue": 3}])["queue"] == 5


def test_shards_of_another_model_are_refused_and_nothing_is_moved(tmp_path: Path) -> None:
    shard = shard_folder(tmp_path, 0)
    shard.mkdir(parents=True)
    sign(shard, adapt(network(), "batch_norm"))
    (shard / "north.safetensors").touch()
    with (
        pytest.raises(ValueError, match="belong to another model"),
        divided_among(tmp_path, 3, adapt(network(), "tent")),
    ):
        pytest.fail("it is divided")
    assert (shard / "north.safetensors").is_file()
