"""A small service: in this process, behind a client without a network, or at a real address in a thread."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import torch
from torch import Tensor

from holdfast.models.tiny import tiny_resnet
from holdfast.serve.app import create_app
from holdfast.serve.forwarding import Call, Reply, answered
from holdfast.serve.limits import Limits, RefusedError
from holdfast.serve.run import server_of
from holdfast.serve.service import Service
from holdfast.serve.state_folder import shard_folder
from holdfast.serve.tenants import Tenants

SHAPE = (3, 32, 32)
BUILDING = {
    "model": "imported:holdfast.models.tiny:tiny_resnet",
    "method": "auto",
    "guarded": True,
    "options": {},
    "holdout": None,
    "card": None,
    "budget": 0.02,
    "clean_accuracy": None,
    "active": 64,
    "checkpoint_every": 2,
    "batch": 4,
    "wait": 0.0,
    "store_inputs": True,
}


def network() -> torch.nn.Module:
    """Return the same network every time."""
    torch.manual_seed(0)
    return tiny_resnet()


def batches(count: int, size: int = 4, seed: int = 0) -> Tensor:
    """Return batches, (count, size, 3, 32, 32)."""
    return torch.rand(count, size, *SHAPE, generator=torch.Generator().manual_seed(seed))


def make_service(folder: Path | None = None, *, limits: Limits | None = None, **options: Any) -> Service:
    """Return a service that is not started; options of the micro-batches, then those of the tenants."""
    own = ("batch", "wait", "store_inputs", "names")
    serving = {name: options.pop(name) for name in own if name in options}
    method = options.pop("method", "tent")
    return Service(
        Tenants(network(), method, folder=folder, **options), limits=limits, **{"batch": 4, "wait": 0.0, **serving}
    )


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Any]:
    """Return a client of a guarded service that asks for every label."""
    from fastapi.testclient import TestClient

    service = make_service(tmp_path / "state", budget=1.0)
    with TestClient(create_app(service)) as client:
        client.service = service  # type: ignore[attr-defined]
        yield client


@contextmanager
def listening(service: Service, **options: Any) -> Iterator[str]:
    """Serve at a loopback address from a thread, and yield the address."""
    server = server_of(create_app(service, **options), service.limits)
    with socket.socket() as at:
        at.bind(("127.0.0.1", 0))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [at]})
        thread.start()
        wait_until(lambda: server.started)
        try:
            yield f"http://127.0.0.1:{at.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()


def wait_until(holds: Callable[[], Any], seconds: float = 60.0) -> Any:
    """Wait until something is true, and return it."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            value = holds()
        except httpx.HTTPError:
            value = None
        if value:
            return value
        time.sleep(0.02)
    raise AssertionError("this did not happen in time")


class Parts:
    """Two services in this process; each can be cut off."""

    def __init__(self, folder: Path) -> None:
        self.services = [make_service(shard_folder(folder, shard), guarded=False) for shard in range(2)]
        self.apps = [create_app(service) for service in self.services]
        self.gone: set[int] = set()

    async def reach(self, shard: int, call: Call) -> Reply:
        """Return the reply of a service, unless it is cut off."""
        if shard in self.gone:
            raise RefusedError(503, "the replica of this tenant is not there; try again later")
        return await answered(self.apps[shard], call)


@pytest.fixture
def parts(tmp_path: Path) -> Iterator[Parts]:
    """Return two started services."""
    started = Parts(tmp_path)
    for service in started.services:
        service.start()
    yield started
    for service in started.services:
        service.stop()
