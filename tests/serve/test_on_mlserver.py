"""The runtime of MLServer, in a real server; skipped where the package is not installed (extra `mlserver`)."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mlserver")
httpx = pytest.importorskip("httpx")

import numpy as np  # noqa: E402

from holdfast.serve.audit import read_audit, verify_audit  # noqa: E402

STARTING = 120.0  # seconds


def free_ports(count: int) -> list[int]:
    """Return ports that are free now."""
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [int(one.getsockname()[1]) for one in sockets]
    for one in sockets:
        one.close()
    return ports


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Any, Path]]:
    """Start `mlserver start` on a folder with one model, and yield a client and the state folder."""
    folder = tmp_path_factory.mktemp("mlserver")
    state = folder / "state"
    http, grpc, metrics = free_ports(3)
    settings = {"host": "127.0.0.1", "http_port": http, "grpc_port": grpc, "metrics_port": metrics}
    (folder / "settings.json").write_text(json.dumps({**settings, "parallel_workers": 0}))
    extra = {
        "model": "imported:holdfast.models.tiny:tiny_resnet",
        "method": "tent",
        "guarded": False,
        "state": str(state),
    }
    model = {"name": "tiny", "implementation": "holdfast.serve.on_mlserver.AdaptingRuntime"}
    (folder / "model-settings.json").write_text(json.dumps({**model, "parameters": {"extra": extra}}))
    command = [sys.executable, "-c", "from mlserver.cli import main; main()", "start", str(folder)]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, env={**os.environ, "OMP_NUM_THREADS": "1"})
    with closing(httpx.Client(base_url=f"http://127.0.0.1:{http}", trust_env=False, timeout=60)) as client:
        try:
            end = time.monotonic() + STARTING
            ready = False
            while not ready and process.poll() is None and time.monotonic() < end:
                with suppress(httpx.HTTPError):
                    ready = client.get("/v2/models/tiny/ready").status_code == 200
                time.sleep(0.1)
            assert ready, (folder / "log").read_text()
            yield client, state
        finally:
            process.terminate()
            process.wait(60)
    assert verify_audit(state / "audit.db").problem is None
    logged = list(read_audit(state / "audit.db"))
    assert logged[-1].kind == "stopped"
    assert {one.tenant for one in logged if one.kind == "batch"} == {"north", "default"}
    assert (state / "north.safetensors").is_file()


def ask(inputs: Any, **parameters: Any) -> dict[str, Any]:
    """Return a request of the Open Inference Protocol."""
    tensor = {"name": "inputs", "datatype": "FP32", "shape": list(inputs.shape), "data": inputs.reshape(-1).tolist()}
    return {"id": "one", "inputs": [tensor], "parameters": parameters}


def outputs_of(answer: Any) -> dict[str, Any]:
    """Return the outputs of an answer by name."""
    assert answer.status_code == 200, answer.text
    return {one["name"]: one["data"] for one in answer.json()["outputs"]}


def test_tenants_are_served_and_adapted_to_behind_mlserver(served: tuple[Any, Path]) -> None:
    client, _ = served
    inputs = np.random.default_rng(0).random((4, 3, 32, 32), np.float32)
    first = client.post("/v2/models/tiny/infer", json=ask(inputs, tenant="north"))
    assert first.json()["parameters"]["batch"] == 0
    outputs = outputs_of(first)
    assert len(outputs["classes"]) == 4
    assert outputs["ids"][0].startswith("north:")
    second = client.post("/v2/models/tiny/infer", json=ask(inputs, tenant="north"))
    assert second.json()["parameters"] == {**first.json()["parameters"], "batch": 1}
    assert outputs_of(second)["logits"] != outputs["logits"], "the first batch was adapted to"
    other = outputs_of(client.post("/v2/models/tiny/infer", json=ask(inputs)))
    assert other["logits"] == pytest.approx(outputs["logits"], abs=1e-5), "another tenant starts from the source"


def test_metadata_name_the_tensors_and_bad_requests_are_refused(served: tuple[Any, Path]) -> None:
    client, _ = served
    said = client.get("/v2/models/tiny").json()
    assert said["inputs"][0]["shape"] == [-1, 3, 32, 32]
    assert "classes" in [one["name"] for one in said["outputs"]]
    small = np.zeros((1, 3, 8, 8), np.float32)
    assert client.post("/v2/models/tiny/infer", json=ask(small)).status_code == 422
    inputs = np.zeros((1, 3, 32, 32), np.float32)
    refused = client.post("/v2/models/tiny/infer", json=ask(inputs, tenant="../etc"))
    assert refused.status_code == 422
    assert "tenant's name" in refused.text
