"""Measure a service: throughput beside the bare loop, latency beside a plain wrapper, memory of a tenant.

    python benchmarks/serve.py --json results/serve.json

Requests of one batch each go over loopback to servers in processes of their own, with one thread for PyTorch: the
service, and "plain", the smallest FastAPI application around the same frozen network. "bare forward" and "bare step"
are calls in this process. The runs alternate, so that all see the same load. Calls in this process are timed by the
core's time that they use, so that other work on the machine does not count; requests by the clock.
"""

from __future__ import annotations

import argparse
import io
import json
import multiprocessing
import socket
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import torch
import uvicorn
from fastapi import FastAPI, Request, Response
from measured import run
from torch import Tensor, nn

from holdfast import AdaptedModel, adapt
from holdfast.machine.memory import keep_freed_memory
from holdfast.models import cifar_resnet
from holdfast.serve.app import create_app
from holdfast.serve.run import server_of
from holdfast.serve.service import Service
from holdfast.serve.tenants import Tenants

METHODS = ("tent", "eta", "blend")
BATCHES = (1, 64)


def npy(values: np.ndarray) -> bytes:
    """Return an array as the content of an NPY file."""
    file = io.BytesIO()
    np.save(file, values, allow_pickle=False)
    return file.getvalue()


def plain(network: nn.Module) -> FastAPI:
    """Return the smallest application that predicts."""
    app = FastAPI()

    @app.post("/v1/predict")
    async def predict(request: Request) -> Response:
        inputs = torch.from_numpy(np.load(io.BytesIO(await request.body()), allow_pickle=False))
        with torch.inference_mode():
            logits = network(inputs)
        confidences, classes = logits.softmax(1).max(1)
        content = {"classes": classes.tolist(), "confidences": confidences.tolist()}
        return Response(json.dumps(content), media_type="application/json")

    return app


def network_of() -> nn.Module:
    """Return the same network in every process."""
    torch.manual_seed(0)
    return cifar_resnet().eval()


def source_of() -> list[Tensor]:
    """Return source samples, for methods that follow their moments."""
    return [torch.rand(64, 3, 32, 32) for _ in range(4)]


def serve(method: str | None, batch: int, folder: Path, ports: Any) -> None:
    """Be a server: of the service with a method, or of the plain application."""
    torch.set_num_threads(1)
    keep_freed_memory()  # as `holdfast serve` does
    if method is None:
        config = uvicorn.Config(plain(network_of()), log_level="error", ws="none", access_log=False, http="h11")
        server = uvicorn.Server(config)
    else:
        tenants = Tenants(network_of(), method, guarded=False, folder=folder, source=source_of())
        service = Service(tenants, batch=batch, wait=0.01)
        server = server_of(create_app(service), service.limits)  # as `holdfast serve` does
    with socket.socket(proto=socket.IPPROTO_TCP) as at:  # so that replies are sent at once, as by `uvicorn` itself
        at.bind(("127.0.0.1", 0))
        at.listen()
        ports.put(at.getsockname()[1])
        server.run(sockets=[at])


@contextmanager
def listening(method: str | None, batch: int, folder: Path) -> Iterator[httpx.Client]:
    """Start a server, and yield a client."""
    context = multiprocessing.get_context("spawn")
    ports = context.Queue()
    process = context.Process(target=serve, args=(method, batch, folder, ports))
    process.start()
    address = f"http://127.0.0.1:{ports.get(timeout=300)}"
    try:
        with httpx.Client(base_url=address, timeout=600, trust_env=False) as client:
            yield client
    finally:
        process.terminate()
        process.join()


def seconds(call: Callable[[], Any], clock: Callable[[], float] = time.perf_counter) -> float:
    """Return how long a call takes."""
    start = clock()
    call()
    return clock() - start


def alternating(calls: dict[str, tuple[Callable[[], Any], Callable[[], Any]]], rounds: int) -> dict[str, float]:
    """Return the median of each call in milliseconds; what comes after a call is not timed."""
    taken: dict[str, list[float]] = {name: [] for name in calls}
    for number in range(rounds + 2):
        for name, (call, after) in calls.items():
            elapsed = seconds(call, time.perf_counter if "request" in name else time.thread_time)
            after()
            if number >= 2:
                taken[name].append(1000 * elapsed)
    return {name: statistics.median(values) for name, values in taken.items()}


def at_once(calls: int, post: Callable[[], Any], after: Callable[[], Any]) -> float:
    """Return how long two clients take for so many requests each, up to the end of the last update."""
    threads = [threading.Thread(target=lambda: [post() for _ in range(calls)]) for _ in range(2)]

    def run() -> None:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        after()

    return seconds(run)


def costs(batch: int, rounds: int, method: str) -> dict[str, Any]:
    """Return medians over alternating rounds, in milliseconds, and their ratios."""
    network = network_of()
    inputs = torch.rand(batch, 3, 32, 32)
    body, headers = npy(inputs.numpy()), {"content-type": "application/x-npy"}
    source = source_of()
    bare: AdaptedModel = adapt(network, method, source=source)
    begun: AdaptedModel = adapt(network, method, source=source)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with listening(method, batch, folder) as adapting, listening(None, batch, folder) as frozen:

            def post(client: httpx.Client) -> None:
                client.post("/v1/predict", content=body, headers=headers).raise_for_status()

            def settled() -> None:
                adapting.get("/v1/status")  # waits for the update of the last batch

            medians = alternating(
                {
                    "bare forward": (torch.inference_mode()(lambda: network(inputs)), bool),
                    "bare step": (lambda: bare.step(inputs), bool),
                    "begin": (lambda: begun.begin(inputs), begun.digest),
                    "plain request": (lambda: post(frozen), bool),
                    "request": (lambda: post(adapting), settled),
                },
                rounds,
            )
            loops = []
            for _ in range(3):
                loop = seconds(lambda: [bare.step(inputs) for _ in range(2 * rounds)])
                loops.append(loop / at_once(rounds, lambda: post(adapting), settled))
        state = sum(path.stat().st_size for path in folder.glob("*.safetensors"))
    tenants = Tenants(network, method, guarded=False, source=source)
    tenants.step("default", inputs)
    size = sum(weight.nbytes for weight in network.parameters())
    return {
        "milliseconds": medians,
        "throughput of the service / bare loop": statistics.median(loops),
        "begin / bare forward": medians["begin"] / medians["bare forward"],
        "request / plain request": medians["request"] / medians["plain request"],
        "state on disk / network": state / size,
        "state in memory / network": tenants.nbytes("default") / size,
    }


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Return the costs of each method and batch size."""
    torch.set_num_threads(1)
    keep_freed_memory()  # as `holdfast serve` does
    rounds = 4 if options.quick else options.rounds
    cases = [(method, batch) for batch in options.batch or BATCHES for method in METHODS]
    return {
        "network": "cifar_resnet (ResNet-20)",
        **{f"{method}, batch {batch}": costs(batch, rounds, method) for method, batch in cases},
    }


def main() -> None:
    """Measure in several processes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--batch", type=int, action="append", help="measure only this batch size; may be repeated")
    run(parser, measure)


if __name__ == "__main__":
    main()
