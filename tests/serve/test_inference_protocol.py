"""Clients of the Open Inference Protocol get what an offline run predicts, in JSON and as binary tensors."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from fastapi.testclient import TestClient

from holdfast import adapt, guard
from holdfast.serve.app import create_app
from holdfast.serve.front import create_front
from holdfast.serve.limits import Limits
from tests.serve.conftest import Parts, batches, listening, make_service, network, wait_until

INPUTS = batches(3)
PATH = "/v2/models/model/infer"


@pytest.fixture
def client() -> Iterator[Any]:
    with TestClient(create_app(make_service(guarded=False))) as client:
        yield client


def tensor(values: torch.Tensor, **more: Any) -> dict[str, Any]:
    return {
        "name": "inputs",
        "datatype": "FP32",
        "shape": list(values.shape),
        "data": values.reshape(-1).tolist(),
        **more,
    }


@pytest.mark.parametrize("binary", [True, False])
def test_a_triton_client_needs_no_change(binary: bool) -> None:
    http = pytest.importorskip("tritonclient.http")
    model = guard(network(), "tent", budget=1.0)
    service = make_service(budget=1.0, clean_accuracy=0.9, names=[f"class {number}" for number in range(10)])
    with listening(service) as url:
        client = http.InferenceServerClient(url.removeprefix("http://"))
        assert client.is_server_live()
        assert client.is_server_ready()
        assert client.is_model_ready("model")
        assert not client.is_model_ready("other")
        assert client.get_server_metadata()["extensions"] == ["binary_tensor_data"]
        described = client.get_model_metadata("model")
        assert described["inputs"] == [{"name": "inputs", "datatype": "FP32", "shape": [-1, 3, 32, 32]}]
        names = [one["name"] for one in described["outputs"]]
        for number, batch in enumerate(INPUTS):
            given = http.InferInput("inputs", list(batch.shape), "FP32")
            given.set_data_from_numpy(batch.numpy(), binary_data=binary)
            asked = None if number == 0 else [http.InferRequestedOutput(name, binary_data=binary) for name in names]
            inferred = client.infer("model", [given], outputs=asked, request_id="7", parameters={"tenant": "north"})
            logits = model.step(batch).logits
            assert np.array_equal(inferred.as_numpy("logits"), logits.numpy()), "bit for bit"
            assert inferred.as_numpy("classes").tolist() == logits.argmax(1).tolist()
            assert inferred.as_numpy("wants_label").tolist() == [True] * 4
            first = inferred.as_numpy("ids")[0]
            assert str(first.decode() if isinstance(first, bytes) else first).startswith(f"north:{4 * number}-")
            assert len(inferred.as_numpy("names")) == 4
            said = inferred.get_response()
            assert (said["id"], said["parameters"]["tenant"], said["parameters"]["batch"]) == ("7", "north", number)
            wait_until(lambda number=number: service.tenants.status("north").batches > number)  # type: ignore[misc]
            wait_until(lambda: service.newest("north"))
        assert inferred.as_numpy("events") is not None
        assert service.tenants.status("north").digest == model.digest()
        client.close()


def test_json_takes_flat_and_nested_data_and_the_default_tenant(client: Any) -> None:
    model = adapt(network(), "tent")
    for batch, data in ((INPUTS[0], INPUTS[0].tolist()), (INPUTS[1], INPUTS[1].reshape(-1).tolist())):
        prediction = client.post(
            PATH, json={"inputs": [tensor(batch, data=data)], "outputs": [{"name": "logits"}]}
        ).json()
        (logits,) = prediction["outputs"]
        assert (logits["name"], logits["shape"], logits["datatype"]) == ("logits", [4, 10], "FP32")
        assert logits["data"] == model.step(batch).logits.reshape(-1).tolist()
        assert prediction["parameters"]["tenant"] == "default"


def test_tenants_by_header_and_parameter_agree_or_are_refused(client: Any) -> None:
    sent = {"inputs": [tensor(INPUTS[0])], "parameters": {"tenant": "north"}}
    assert client.post(PATH, json=sent, headers={"X-Tenant": "north"}).status_code == 200
    assert client.post(PATH, json=sent, headers={"X-Tenant": "south"}).status_code == 422
    assert client.post(PATH, json={**sent, "parameters": {"tenant": "../x"}}).status_code == 422
    assert list(client.get("/v1/status").json()["tenants"]) == ["north"]


@pytest.mark.parametrize(
    "change",
    [
        {"inputs": []},
        {"inputs": [tensor(INPUTS[0]), tensor(INPUTS[0])]},
        {"inputs": [tensor(INPUTS[0], shape=[4, 3, 32, 31])]},
        {"inputs": [tensor(INPUTS[0], shape=[-1, 3, 32, 32])]},
        {"inputs": [tensor(INPUTS[0], datatype="BYTES")]},
        {"inputs": [tensor(INPUTS[0], datatype="INT64")]},
        {"inputs": [tensor(INPUTS[0], datatype=[1])]},
        {"inputs": [tensor(INPUTS[0], parameters={"binary_data_size": 8})]},
        {"inputs": [tensor(INPUTS[0], data="x")]},
        {"inputs": 3},
        {"outputs": [{"name": "secret"}]},
        {"outputs": [3]},
        {"outputs": "logits"},
        {"outputs": [{"name": "classes", "parameters": {"binary_data": "false"}}]},
        {"parameters": {"binary_data_output": 1}},
        {"inputs": [tensor(INPUTS[0], name="pixels")]},
        {"inputs": [{**tensor(INPUTS[0]), "name": None}]},
        {"inputs": [tensor(INPUTS[0], shape=[4.5, 3, 32, 32])]},
        {"inputs": [tensor(INPUTS[0][:1], shape=[True, 3, 32, 32])]},
        {"inputs": [{**tensor(INPUTS[0]), "data": [True, *INPUTS[0].flatten().tolist()[1:]]}]},
        {"inputs": [tensor(INPUTS[0], parameters={"binary_data_size": 0})]},
        {"parameters": {"tenant": 3}},
        {"parameters": [1]},
        {"inputs": [{**tensor(INPUTS[0]), "datatype": "UINT8", "data": [300] * INPUTS[0].numel()}]},
        {"id": []},
    ],
)
def test_wrong_requests_are_refused(client: Any, change: dict[str, Any]) -> None:
    answer = client.post(PATH, json={"inputs": [tensor(INPUTS[0])], **change})
    assert (answer.status_code in (400, 413, 422), list(answer.json())) == (True, ["error"])


def test_wrong_lengths_and_names_are_refused(client: Any) -> None:
    head = json.dumps(
        {"inputs": [{**tensor(INPUTS[0]), "data": None, "parameters": {"binary_data_size": 49152}}]}
    ).encode()
    body = head + INPUTS[0].numpy().tobytes()
    for length in ("-1", "x", "9" * 9, "9" * 5000, "3", str(len(head) - 1)):
        sent = client.post(PATH, content=body, headers={"Inference-Header-Content-Length": length})
        assert sent.status_code == 400, length
    for cut in (body[:-4], body + b"0000"):
        assert (
            client.post(PATH, content=cut, headers={"Inference-Header-Content-Length": str(len(head))}).status_code
            == 400
        )
    assert (
        client.post(PATH, content=body, headers={"Inference-Header-Content-Length": str(len(head))}).status_code == 200
    )
    assert client.post("/v2/models/other/infer", json={}).status_code == 404
    assert client.get("/v2/models/other/ready").status_code == 404
    assert client.post("/v2/models/model/versions/1/infer", json={"inputs": [tensor(INPUTS[0])]}).status_code == 200


def test_the_front_sends_each_tenant_to_its_replica(parts: Parts) -> None:
    with TestClient(create_front(parts.reach, shards=2, limits=Limits())) as client:
        assert client.get("/v2/models/model").json()["name"] == "model"
        assert client.get("/v2/health/live").status_code == client.get("/v2").status_code == 200
        assert client.get("/v2/models/model/ready").status_code == 200
        for tenant in ("north", "south", "west"):
            model = adapt(network(), "tent")
            sent = {"inputs": [tensor(INPUTS[0])], "parameters": {"tenant": tenant}}
            prediction = client.post(PATH, json=sent).json()
            assert prediction["parameters"]["tenant"] == tenant
            assert prediction["outputs"][0]["data"] == model.step(INPUTS[0]).logits.reshape(-1).tolist()
        assert client.get("/v1/status").json()["tenants"].keys() == {"north", "south", "west"}
