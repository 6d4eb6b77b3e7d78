"""On Ray Serve: a replica is killed under load, and no prediction is wrong or lost."""

from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import torch

from holdfast import AdaptedModel, adapt
from holdfast.models.tiny import tiny_resnet
from holdfast.serve.audit import read_audit, verify_audit
from holdfast.serve.state_folder import audit_logs, shard_folder, shard_of
from tests.serve.bodies import npy
from tests.serve.conftest import SHAPE, wait_until

EVERY = 2  # batches between checkpoints
TENANTS = ("north", "south", "west", "east")
COMMAND = ["serve", "imported:holdfast.models.tiny:tiny_resnet", "--no-guard", "--method", "tent", "--engine", "ray"]


class Stream(threading.Thread):
    """One tenant's client: sends batches one after the other until it is told to stop."""

    def __init__(self, url: str, tenant: str, seed: int) -> None:
        super().__init__()
        self.url, self.tenant, self.rng = url, tenant, np.random.default_rng(seed)
        self.answers: list[tuple[np.ndarray[Any, Any], dict[str, Any]]] = []
        self.problem: str | None = None
        self.enough = threading.Event()

    def run(self) -> None:
        with httpx.Client(base_url=self.url, timeout=180, trust_env=False) as client:
            while not self.enough.is_set():
                inputs = self.rng.random((4, *SHAPE), np.float32)
                headers = {"content-type": "application/x-npy", "X-Tenant": self.tenant}
                try:
                    answer = client.post("/v1/predict?logits=1", content=npy(inputs), headers=headers)
                except httpx.HTTPError as error:
                    self.problem = repr(error)
                    return
                if answer.status_code != 200:
                    self.problem = answer.text
                    return
                self.answers.append((inputs, answer.json()))


def rewound(stream: Stream) -> int:
    """Compare all answers with an offline run that goes back where the replica did; return how many batches it lost."""
    model = adapt(tiny_resnet(), "tent")
    after = {0: model.snapshot()}  # batches seen -> state
    lost = 0

    def offline(model: AdaptedModel, inputs: np.ndarray[Any, Any], batch: int) -> list[list[float]]:
        logits: list[list[float]] = model.step(torch.from_numpy(inputs)).logits.tolist()
        after[batch + 1] = model.snapshot()
        return logits

    expected = 0
    for inputs, answer in stream.answers:
        batch = answer["batch"]
        if batch == expected + 1 and batch not in after:  # its answer was lost with the replica, and its update was not
            offline(model, inputs, expected)
        elif batch != expected:
            lost = max(lost, expected - batch)
            model.return_to(after[batch])
        assert offline(model, inputs, batch) == answer["logits"], (stream.tenant, batch)
        expected = batch + 1
    return lost


@pytest.mark.slow
@pytest.mark.skipif(
    importlib.util.find_spec("ray") is None or importlib.util.find_spec("grpc") is None,
    reason="Ray Serve is not installed (pip install 'holdfast[serve,ray]')",
)
def test_a_killed_replica_is_restored_and_no_prediction_is_wrong(tmp_path: Path) -> None:
    folder, log = tmp_path / "state", tmp_path / "log"
    options = ["--state", str(folder), "--port", "0", "--checkpoint-every", str(EVERY), "--wait-ms", "0"]
    with log.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "holdfast", *COMMAND, *options],
            stdout=out,
            stderr=out,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
            start_new_session=True,
        )
    try:
        wait_until(lambda: process.poll() is not None or b"serving" in log.read_bytes(), 300)
        assert process.poll() is None, log.read_text()
        url = next(word for word in log.read_text().split("serving")[-1].split() if word.startswith("http://"))
        streams = [Stream(url, tenant, seed) for seed, tenant in enumerate(TENANTS)]
        for stream in streams:
            stream.start()
        wait_until(lambda: all(len(stream.answers) > EVERY for stream in streams), 120)
        before = [len(stream.answers) for stream in streams]
        killed = shard_of(TENANTS[0], 2)
        os.kill(holder(shard_folder(folder, killed) / "lock"), signal.SIGKILL)
        wait_until(
            lambda: all(len(one.answers) > count + EVERY for one, count in zip(streams, before, strict=True)), 240
        )
        with httpx.Client(base_url=url, trust_env=False, timeout=60) as client:
            wait_until(lambda: client.get("/readyz").status_code == 200)
            wait_until(lambda: sorted(client.get("/v1/status").json()["tenants"]) == sorted(TENANTS))
        for stream in streams:  # each still waits for a prediction, which a graceful stop sends
            stream.enough.set()
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(timeout=120)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
    assert "stopped." in log.read_text()
    for stream in streams:
        stream.join()
        assert stream.problem is None
    for stream in streams:
        lost = rewound(stream)
        assert lost <= EVERY, "the state was older than one checkpoint"
        assert lost == 0 or shard_of(stream.tenant, 2) == killed, "a replica that was not killed lost something"
    check_logs(folder, streams, killed)


def holder(lock: Path) -> int:
    """Return the process that has a file open."""
    for opened in Path("/proc").glob("[0-9]*/fd/*"):
        with suppress(OSError):
            if opened.resolve() == lock.resolve():
                return int(opened.parts[2])
    raise AssertionError(f"nobody has {lock}")


def check_logs(folder: Path, streams: list[Stream], killed: int) -> None:
    """Check that every log is intact, and that the states on disk are those that the logs end with."""
    from holdfast.serve.tenants import Tenants

    logs = audit_logs(folder)
    assert [path.parent.name for path in logs] == ["shard-0", "shard-1"]
    ends: dict[str, str] = {}
    for shard, path in enumerate(logs):
        assert verify_audit(path).problem is None
        decisions = list(read_audit(path))
        assert [one.kind for one in decisions].count("started") == (2 if shard == killed else 1)
        assert decisions[-1].kind == "stopped"
        for one in decisions:
            if one.kind == "batch":
                assert shard_of(one.tenant, 2) == shard, "two replicas had one tenant"
                ends[one.tenant] = one.after
    for stream in streams:
        logged = [one for path in logs for one in read_audit(path, tenant=stream.tenant) if one.kind == "batch"]
        assert len(logged) >= len(stream.answers) - 1, "the last record before the kill may be missing, and no other"
    again = Tenants("imported:holdfast.models.tiny:tiny_resnet", "tent", guarded=False, folder=folder)
    assert {name: again.status(name).digest for name in again.names()} == ends
    again.close()
