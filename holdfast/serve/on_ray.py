"""Run a service on Ray Serve: tenants divided among replicas, each restored from its folder when it dies."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from holdfast.machine.memory import keep_freed_memory
from holdfast.options.own_code import OwnFile, load_files, loaded_files
from holdfast.serve.app import create_app
from holdfast.serve.build import build_service
from holdfast.serve.forwarding import Call, Reply, answered
from holdfast.serve.front import create_front
from holdfast.serve.gate import LOOPBACK, check_address
from holdfast.serve.limits import Limits, RefusedError
from holdfast.serve.state_folder import divided_among, shard_folder

LOG = logging.getLogger(__name__)
APPLICATION = "holdfast"
GRACE_SECONDS = 30
RESTORE_SECONDS = 120.0  # that a request waits for the replica of its tenant to be restored
RETRY_SECONDS = 0.2
HEALTH_SECONDS = 1.0  # between two checks of a replica
ONGOING = 1024  # requests of one replica at a time: they wait in its micro-batches
SETTINGS = {
    "RAY_USAGE_STATS_ENABLED": "0",  # nothing is sent to the outside
    "RAY_worker_niceness": "0",  # a prediction is no background work
}
GPUS = "HOLDFAST_RAY_GPUS"  # share of a GPU for each replica; by default none


class Replica:
    """One shard of the tenants in a process of Ray: the application of `holdfast serve`, without an address."""

    def __init__(self, building: Mapping[str, Any], folder: str, limits: Limits, files: Iterable[OwnFile] = ()) -> None:
        load_files(files)
        keep_freed_memory()
        self.service = build_service(building, folder=Path(folder), limits=limits)
        self.app = create_app(self.service)
        self.service.start()

    async def call(self, call: Call) -> Reply:
        """Answer a request."""
        return await answered(self.app, call)

    async def hurry(self) -> None:
        """Wait for no batch to fill any more."""
        self.service.worker.hurry()

    def check_health(self) -> None:
        """Raise if no predictions are served: Ray then starts another replica."""
        if not self.service.ready:
            raise RuntimeError("the worker of this replica has ended")

    async def __del__(self) -> None:
        """Write all states and the log; Ray calls this when it stops the replica."""
        if hasattr(self, "service"):
            await asyncio.to_thread(self.service.stop)


@dataclass
class _Front:
    """The ASGI application of the front; built where it runs."""

    shards: int
    limits: Limits
    token: str | None
    hosts: tuple[str, ...] | None
    _app: Any = field(default=None, repr=False)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if self._app is None:
            self._app = create_front(
                _reaching(self.shards), shards=self.shards, limits=self.limits, token=self.token, hosts=self.hosts
            )
        await self._app(scope, receive, send)


class _Ingress:
    """The deployment of the front; it keeps the replicas in the application."""

    def __init__(self, *replicas: Any) -> None:
        self.replicas = replicas


def _reaching(shards: int) -> Callable[[int, Call], Any]:
    """Return what sends a call to a replica, and again if that dies: to the one that is restored in its place."""
    from ray import serve
    from ray.exceptions import RayActorError

    handles = [serve.get_deployment_handle(_name(shard), APPLICATION) for shard in range(shards)]

    async def reach(shard: int, call: Call) -> Reply:
        end = time.monotonic() + RESTORE_SECONDS
        while (left := end - time.monotonic()) > 0:
            try:
                reply: Reply = await asyncio.wait_for(_result(handles[shard], call), left)
                return reply
            except RayActorError:
                LOG.warning("replica %d has died; its request waits for the next one", shard)
                await asyncio.sleep(RETRY_SECONDS)
            except asyncio.TimeoutError:
                break
        raise RefusedError(503, "the replica of this tenant is not there; try again later")

    return reach


async def _result(handle: Any, call: Call) -> Any:
    return await handle.call.remote(call)


def _name(shard: int) -> str:
    return f"shard-{shard}"


def run_on_ray(
    building: Mapping[str, Any],
    *,
    folder: Path | None,
    limits: Limits,
    replicas: int = 2,
    host: str = "127.0.0.1",
    port: int = 8000,
    token: str | None = None,
    announce: Callable[[str], None] = lambda _: None,
    stop: threading.Event | None = None,
) -> None:
    """Serve on Ray until SIGINT or SIGTERM (or `stop`); then answer what is under way and write all states.

    The cluster is that of `RAY_ADDRESS`, or the one already connected to; without either, Ray runs on this machine.
    """
    if folder is None:
        raise ValueError("--engine ray needs --state: a folder that all machines share, to restore tenants from")
    check_address(host, token)
    engine, serve = _connected()
    folder = folder.resolve()
    trial = build_service(
        {**building, "store_inputs": False, "otel": False}, folder=None, limits=limits
    )  # errors show here, and once
    building = {**building, "memory_format": trial.placement.memory_format}  # the same in all replicas
    with divided_among(folder, replicas, trial.tenants.model):
        del trial
        actor = {"num_cpus": 1, "num_gpus": float(os.environ.get(GPUS, 0))}
        common = {"max_ongoing_requests": ONGOING, "graceful_shutdown_timeout_s": GRACE_SECONDS}
        deployment = serve.deployment(Replica).options(
            num_replicas=1, ray_actor_options=actor, health_check_period_s=HEALTH_SECONDS, **common
        )
        parts = [
            deployment.options(name=_name(shard)).bind(
                dict(building), str(shard_folder(folder, shard)), limits, loaded_files()
            )
            for shard in range(replicas)
        ]
        front = _Front(replicas, limits, token, LOOPBACK if host in LOOPBACK else None)
        ingress = serve.deployment(serve.ingress(front)(_Ingress)).options(
            name="front", num_replicas=1, ray_actor_options={"num_cpus": 0}, **common
        )
        port = _free_port(host, port)
        serve.start(http_options={"host": host, "port": port})
        stopping = stop or _signalled()
        try:
            serve.run(ingress.bind(*parts), name=APPLICATION, route_prefix="/")
            announce(f"http://{host}:{port}/")
            while not stopping.wait(1.0):
                pass
            for shard in range(replicas):
                serve.get_deployment_handle(_name(shard), APPLICATION).hurry.remote()
            serve.delete(APPLICATION)  # answers what is under way; the shutdown alone would drop connections
        finally:
            serve.shutdown()
            if stop is None:
                engine.shutdown()


def _signalled() -> threading.Event:
    asked = threading.Event()
    for stopping in (signal.SIGINT, signal.SIGTERM):
        signal.signal(stopping, lambda *_: asked.set())
    return asked


def _free_port(host: str, port: int) -> int:
    """Return the port, or any free one for 0; raise if another process has it, which Ray would not say."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as trying:
        trying.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            trying.bind((host, port))
        except OSError as error:
            raise OSError(f"cannot listen at {host}:{port} ({error.strerror}); choose another --port") from error
        return int(trying.getsockname()[1])


def _connected() -> tuple[Any, Any]:
    for name, value in SETTINGS.items():
        os.environ.setdefault(name, value)
    try:
        import ray
        from ray import serve
    except ImportError as error:
        raise ImportError('--engine ray needs Ray Serve: pip install "holdfast[serve,ray]"') from error
    if not ray.is_initialized():
        ray.init(log_to_driver=False, include_dashboard=False, configure_logging=False)
    return ray, serve
