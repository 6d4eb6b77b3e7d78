"""Broken clients, folders, files and clocks: one clear sentence each, and no prediction is lost."""

from __future__ import annotations

import io
import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
import wave
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import torch
from fastapi.testclient import TestClient
from typer.testing import CliRunner

from holdfast.cli import app as commands
from holdfast.records import InputSpec
from holdfast.serve import service as serving
from holdfast.serve.app import create_app
from holdfast.serve.audit import AuditLog, read_audit, verify_audit
from holdfast.serve.batching import Request, Worker
from holdfast.serve.bodies import Decoder
from holdfast.serve.limits import Limits, RefusedError
from holdfast.serve.run import run
from tests.serve.bodies import NPY, npy, png
from tests.serve.conftest import SHAPE, batches, make_service, wait_until

SENT = {"content": npy(batches(1)[0].numpy()), "headers": NPY}
IMAGES = InputSpec("image", (3, 32, 32))


@pytest.mark.parametrize(
    ("header", "status"),
    [("Host: [", 421), ("Host: [::1", 421), ("Host: a b", 421), ("Origin: http://[", 403), ("Origin: null", 403)],
)
def test_headers_that_name_no_host_are_refused(header: str, status: int) -> None:
    name, _, value = header.partition(": ")
    with TestClient(create_app(make_service(), hosts=("testserver",))) as client:
        answer = client.get("/v1/status", headers={name: value})
        assert (answer.status_code, list(answer.json())) == (status, ["error"])


@pytest.mark.parametrize("given", [{"tenant": ""}, {"tenant": []}, {"tenant": {}}, {"tenant": 1}, {"tenant": False}])
def test_an_empty_name_is_never_taken_for_the_default_tenant(client: Any, given: dict[str, Any]) -> None:
    client.post("/v1/predict", **SENT)
    before = client.get("/v1/status").json()["tenants"]["default"]
    for action in ("reset", "freeze", "export"):
        assert client.post(f"/v1/{action}", json=given).status_code == 422
    assert client.post("/v1/predict", content=SENT["content"], headers={**NPY, "X-Tenant": ""}).status_code == 422
    after = client.get("/v1/status").json()["tenants"]["default"]
    assert (after["digest"], after["frozen"], after["batches"]) == (before["digest"], False, 1)


def test_errors_of_the_framework_have_the_form_of_all_others(client: Any) -> None:
    for answer, status in (
        (client.get("/nothing"), 404),
        (client.put("/v1/predict"), 405),
        (client.get("/v1/history?since=<script>"), 422),
    ):
        assert (answer.status_code, list(answer.json())) == (status, ["error"])
        assert "script" not in answer.text


def test_images_and_arrays_of_any_shape_keep_their_axes() -> None:
    pixels = np.arange(16 * 24 * 3, dtype=np.uint8).reshape(16, 24, 3)
    wide, high = (Decoder(InputSpec("image", shape), Limits()) for shape in ((3, 16, 24), (3, 24, 16)))
    inputs = wide.decode(png(pixels), "image/png")
    assert torch.equal(inputs, torch.from_numpy(pixels).permute(2, 0, 1)[None] / 255)
    assert torch.equal(high.decode(png(pixels.swapaxes(0, 1)), "image/png"), inputs.mT)
    with pytest.raises(RefusedError, match="the image is 24×16, and the network takes 16×24"):
        high.decode(png(pixels), "image/png")
    for order in ("C", "F"):
        file = io.BytesIO()
        np.save(file, np.asarray(inputs.numpy(), order=order))
        assert torch.equal(wide.decode(file.getvalue(), "application/x-npy"), inputs)


def test_many_large_parts_are_refused_before_they_are_decoded() -> None:
    limits = Limits(pixels=1024, decoded=2.0)
    decoder = Decoder(IMAGES, limits)
    part = b"--a\r\nContent-Type: image/png\r\n\r\n" + png(np.zeros((32, 32, 3), np.uint8)) + b"\r\n"
    assert len(decoder.decode(part * 2 + b"--a--", "multipart/form-data; boundary=a")) == 2
    with pytest.raises(RefusedError, match="too large together"):
        decoder.decode(part * 3 + b"--a--", "multipart/form-data; boundary=a")
    spoken = Decoder(InputSpec("audio", (1, 800), sample_rate=8000), Limits(audio_seconds=2.0))
    file = io.BytesIO()
    with wave.open(file, "wb") as wav:
        wav.setparams((2, 2, 8000, 0, "NONE", ""))
        wav.writeframes((np.arange(2 * 12_000) % 99).astype("<i2").tobytes())  # 1.5 s, two channels
    assert spoken.decode(file.getvalue(), "audio/wav").shape == (1, 1, 800)
    many = b"--a\r\nContent-Type: audio/wav\r\n\r\n" + file.getvalue() + b"\r\n"
    with pytest.raises(RefusedError, match="too large together"):
        spoken.decode(many * 12 + b"--a--", "multipart/form-data; boundary=a")


def test_a_clock_that_is_set_back_hides_no_decision(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    client.post("/v1/predict", **SENT)
    wait_until(lambda: client.get("/v1/history").json())
    newest = client.get("/v1/history").json()[-1]["time"]
    monkeypatch.setattr("holdfast.serve.tenants.time.time", lambda: newest - 3600)
    client.post("/v1/predict", **SENT)
    wait_until(lambda: len(client.get("/v1/history").json()) == 2)
    assert [one["batch"] for one in client.get(f"/v1/history?since={newest!r}").json()] == [1]
    path = client.service.tenants.disk.log.path
    client.service.stop()
    assert verify_audit(path).problem is None


def test_a_damaged_state_is_in_the_log(tmp_path: Path) -> None:
    with TestClient(create_app(make_service(tmp_path))) as client:
        client.post("/v1/predict", **SENT)
    (tmp_path / "default.safetensors").write_bytes(b"damaged")
    with TestClient(create_app(make_service(tmp_path))) as client:
        assert client.post("/v1/predict", **SENT).status_code == 200
    kinds = [one.kind for one in read_audit(tmp_path / "audit.db")]
    assert kinds == ["started", "batch", "stopped", "started", "damaged", "batch", "stopped"]


def test_a_log_damaged_inside_is_told_and_costs_no_prediction(tmp_path: Path) -> None:
    log = AuditLog(tmp_path / "audit.db")
    for index in range(200):
        log.append(serving.Decision(time=index, tenant="a", kind="reset", batch=index, before="", after="x" * 100))
    log.close()
    content = bytearray((tmp_path / "audit.db").read_bytes())
    content[9 * 4096 : 10 * 4096] = b"\xff" * 4096
    (tmp_path / "audit.db").write_bytes(content)
    assert "damaged" in str(verify_audit(tmp_path / "audit.db").problem)
    shown = CliRunner().invoke(commands, ["audit", str(tmp_path)])
    assert (shown.exit_code, shown.exception.__class__) == (1, SystemExit)
    assert "NOT intact" in shown.output
    with TestClient(create_app(make_service(tmp_path))) as client:
        assert client.post("/v1/predict", **SENT).status_code == 200


def test_what_hinders_the_start_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("a file")
    with pytest.raises(OSError, match=r"the state folder .* cannot be used"):
        make_service(tmp_path / "file")
    (tmp_path / "audit.db").mkdir()
    with pytest.raises(OSError, match=r"the audit log .* cannot be opened"):
        AuditLog(tmp_path / "audit.db")
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        with pytest.raises(OSError, match=r"cannot listen at .* choose another --port"):
            run(make_service(), port=other.getsockname()[1])


def test_a_worker_in_a_hurry_waits_for_no_batch_to_fill() -> None:
    answers: list[Any] = []
    worker = Worker(
        lambda _, requests: [one.answer("served") for one in requests] and None, batch=64, wait=60.0
    ).start()
    worker.put(Request("north", batches(1)[0], answers.append))
    time.sleep(0.05)
    assert answers == []
    worker.hurry()
    wait_until(lambda: answers == ["served"], 10)
    worker.stop()


@pytest.mark.slow
def test_a_stop_answers_requests_that_wait_in_a_batch(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "holdfast", "serve", "imported:holdfast.models.tiny:tiny_resnet", "--no-guard"]
    command += ["--method", "tent", "--state", str(tmp_path / "state"), "--port", "0", "--wait-ms", "60000"]
    log = tmp_path / "log"
    with log.open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out, env={**os.environ, "PYTHONUNBUFFERED": "1"})
    wait_until(lambda: b"http://" in log.read_bytes(), 120)
    url = next(word for word in log.read_text().split() if word.startswith("http://"))
    with httpx.Client(base_url=url, trust_env=False, timeout=120) as client:
        wait_until(lambda: client.get("/readyz").status_code == 200, 120)
        responses: list[Any] = []
        inputs = np.random.default_rng(0).random((2, *SHAPE), np.float32)
        waiting = threading.Thread(
            target=lambda: responses.append(
                httpx.post(f"{url}v1/predict", content=npy(inputs), headers=NPY, trust_env=False, timeout=120)
            )
        )
        waiting.start()
        wait_until(lambda: client.get("/v1/status").json()["queue"] == 2)  # for a minute, unless the service stops
    process.send_signal(signal.SIGTERM)
    asked = time.monotonic()
    waiting.join()
    assert time.monotonic() - asked < 25, "the stop did not wait for the batch to fill"
    assert process.wait(timeout=60) == 0
    assert [answer.status_code for answer in responses] == [200]
    kinds = [one.kind for one in read_audit(tmp_path / "state" / "audit.db")]
    assert kinds == ["started", "batch", "stopped"]
    assert json.loads(responses[0].text)["batch"] == 0


def test_a_disk_that_is_full_from_the_start_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Full:
        def execute(self, *_: Any) -> None:
            raise sqlite3.OperationalError("database or disk is full")

        def close(self) -> None:
            pass

    monkeypatch.setattr(sqlite3, "connect", lambda *_, **__: Full())
    with pytest.raises(OSError, match=r"cannot be opened \(database or disk is full\)"):
        AuditLog(tmp_path / "audit.db")
