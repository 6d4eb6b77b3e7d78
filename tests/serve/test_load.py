"""Many clients and tenants at once, killed processes, slow clients: no prediction is lost, mixed or wrong."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import defaultdict
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import numpy as np
import pytest
import torch

from holdfast import adapt
from holdfast.serve.app import create_app
from holdfast.serve.audit import read_audit, verify_audit
from holdfast.serve.connections import Connection
from holdfast.serve.forwarding import Call, answered
from holdfast.serve.limits import Limits
from holdfast.serve.tenants import Serving, Tenants
from tests.serve.bodies import NPY, npy
from tests.serve.conftest import SHAPE, listening, make_service, network, wait_until


def drive(url: str, *, clients: int, tenants: int, seconds: float, requests: int, size: int) -> list[dict[str, Any]]:
    """Send requests from many threads, and return every answer with its inputs."""
    predictions: list[dict[str, Any]] = []
    failed: list[str] = []
    end = time.monotonic() + seconds

    def client(number: int) -> None:
        rng = np.random.default_rng(number)
        with httpx.Client(base_url=url, timeout=120, trust_env=False) as session:
            for _ in range(requests):
                if time.monotonic() > end:
                    return
                inputs = rng.random((int(rng.integers(1, size + 1)), *SHAPE), np.float32)
                tenant = f"tenant-{rng.integers(tenants)}"
                answer = session.post("/v1/predict?logits=1", content=npy(inputs), headers={**NPY, "X-Tenant": tenant})
                if answer.status_code != 200 or answer.json()["tenant"] != tenant:
                    failed.append(answer.text)
                else:
                    predictions.append({**answer.json(), "inputs": inputs})

    threads = [threading.Thread(target=client, args=[number]) for number in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed, failed[0]
    return predictions


def check(predictions: list[dict[str, Any]]) -> int:
    """Compare every answer with an offline run over the same batches; return how many batches held two requests."""
    by_tenant: dict[str, dict[int, list[dict[str, Any]]]] = defaultdict(lambda: defaultdict(list))
    for answer in predictions:
        by_tenant[answer["tenant"]][answer["batch"]].append(answer)
    merged = 0
    for served in by_tenant.values():
        model = adapt(network(), "tent")
        assert sorted(served) == list(range(len(served))), "a batch is missing"
        for batch in range(len(served)):
            answers = sorted(served[batch], key=lambda answer: answer["position"])
            logits = model.step(torch.from_numpy(np.concatenate([answer["inputs"] for answer in answers]))).logits
            assert torch.equal(logits, torch.tensor([row for answer in answers for row in answer["logits"]]))
            merged += len(answers) > 1
    return merged


@pytest.mark.filterwarnings("ignore:got a batch of one")
def test_concurrent_clients_get_what_an_offline_run_predicts(tmp_path: Path) -> None:
    service = make_service(tmp_path, guarded=False, batch=8, wait=0.01, active=2)
    with listening(service) as url:
        predictions = drive(url, clients=8, tenants=3, seconds=60, requests=4, size=4)
    assert len(predictions) == 32
    assert check(predictions) > 0, "no requests were batched together"
    assert verify_audit(tmp_path / "audit.db").problem is None


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:got a batch of one")
def test_64_clients_and_20_tenants_for_a_minute(tmp_path: Path) -> None:
    service = make_service(tmp_path, guarded=False, batch=32, wait=0.01, active=10)
    with listening(service) as url:
        predictions = drive(url, clients=64, tenants=20, seconds=60, requests=10_000, size=8)
    assert len(predictions) > 300
    check(predictions)
    assert verify_audit(tmp_path / "audit.db").problem is None


def started(folder: Path, log: Path) -> tuple[subprocess.Popen[bytes], str]:
    """Start the command in a process of its own, and return its address."""
    command = [sys.executable, "-m", "holdfast", "serve", "imported:holdfast.models.tiny:tiny_resnet", "--no-guard"]
    command += ["--method", "tent", "--state", str(folder), "--port", "0", "--checkpoint-every", "2", "--wait-ms", "0"]
    with log.open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out, env={**os.environ, "PYTHONUNBUFFERED": "1"})
    wait_until(lambda: b"http://" in log.read_bytes(), 120)
    url = next(word for word in log.read_text().split() if word.startswith("http://"))
    wait_until(lambda: httpx.get(f"{url}readyz", trust_env=False).status_code == 200, 120)
    return process, url


@pytest.mark.slow
def test_a_killed_process_loses_at_most_a_checkpoint_and_a_stopped_one_nothing(tmp_path: Path) -> None:
    folder, log = tmp_path / "state", tmp_path / "log"
    inputs = npy(torch.rand(2, *SHAPE).numpy())
    process, url = started(folder, log)
    assert "runs Python code of its own" in " ".join(log.read_text().split())
    for _ in range(5):
        assert httpx.post(f"{url}v1/predict", content=inputs, headers=NPY, trust_env=False).status_code == 200
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert verify_audit(folder / "audit.db").problem is None
    logged = {one.batch: one for one in read_audit(folder / "audit.db", tenant="default")}
    assert len(logged) >= 4

    process, url = started(folder, log)
    status = httpx.get(f"{url}v1/status", trust_env=False).json()["tenants"]["default"]
    assert 5 - 2 <= status["batches"] <= 5
    assert status["digest"] == logged[status["batches"] - 1].after, "the state is one that the log knows"
    assert httpx.post(f"{url}v1/predict", content=inputs, headers=NPY, trust_env=False).status_code == 200
    process.send_signal(signal.SIGTERM)
    process.wait(timeout=60)
    assert "stopped." in log.read_text()
    assert verify_audit(folder / "audit.db").problem is None
    last = list(read_audit(folder / "audit.db"))
    assert [one.kind for one in last[-2:]] == ["batch", "stopped"]
    note = json.loads((folder / "service.json").read_text())
    assert note["recipe"]["method"] == "tent"
    again = Tenants("imported:holdfast.models.tiny:tiny_resnet", "tent", guarded=False, folder=folder)
    assert again.status("default").digest == last[-2].after
    again.close()


def test_replies_do_not_wait_for_acknowledgements(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[int] = []
    made = Connection.connection_made

    def watched(self: Connection, transport: asyncio.Transport) -> None:
        made(self, transport)
        opened.append(transport.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))

    monkeypatch.setattr(Connection, "connection_made", watched)
    with listening(make_service()) as url:
        assert httpx.get(f"{url}/healthz", trust_env=False).status_code == 200
    assert opened == [1]


def test_a_reply_is_sent_before_the_update_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.serve.service.REPLY_SECONDS", 60.0)
    service, order = make_service(), list[str]()
    app, finish = create_app(service), service.tenants.finish

    async def watched(scope: Any, receive: Any, send: Any) -> None:
        async def sending(message: Any) -> None:
            time.sleep(0.05)  # noqa: ASYNC251: the loop is slow
            await send(message)
            order.append(message["type"])

        await app(scope, receive, sending)

    def finishing(serving: Serving) -> Any:
        order.append("update")
        return finish(serving)

    monkeypatch.setattr(service.tenants, "finish", finishing)
    body, headers = npy(torch.rand(2, *SHAPE).numpy()), ((b"content-type", b"application/x-npy"),)
    service.start()
    assert asyncio.run(answered(watched, Call("POST", "/v1/predict", headers=headers, body=body))).status == 200
    service.stop()
    assert order == ["http.response.start", "http.response.body", "update"]


def test_slow_and_silent_clients_are_dropped_and_hold_up_nobody() -> None:
    service = make_service(limits=Limits(body_seconds=0.3, body_bytes=2**20))
    with listening(service) as url:
        address = urlsplit(url)
        host_and_port = (str(address.hostname), int(address.port or 0))
        head = b"POST /v1/predict HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        with socket.create_connection(host_and_port) as slow, socket.create_connection(host_and_port) as silent:
            slow.sendall(head + b"Content-Length: 1000\r\n\r\n[1,")
            silent.sendall(b"POST /v1/pre")
            body = npy(torch.rand(2, *SHAPE).numpy())
            with httpx.Client(base_url=url, trust_env=False, timeout=60) as client:
                assert client.post("/v1/predict", content=body, headers=NPY).status_code == 200
            slow.settimeout(60)
            assert b" 408 " in slow.recv(4096)
        with socket.create_connection(host_and_port) as oversized:
            oversized.sendall(head + b"Content-Length: 9999999\r\n\r\n")
            oversized.settimeout(60)
            assert b" 413 " in oversized.recv(4096)
        with socket.create_connection(host_and_port) as endless:
            endless.sendall(head + b"Transfer-Encoding: chunked\r\n\r\n")
            endless.settimeout(60)
            try:
                for _ in range(40):
                    endless.sendall(b"10000\r\n" + b"1" * 65536 + b"\r\n")
            except OSError:
                pass
            else:
                assert b" 413 " in endless.recv(4096)
        with httpx.Client(base_url=url, trust_env=False, timeout=60) as client:
            assert client.get("/readyz").status_code == 200
