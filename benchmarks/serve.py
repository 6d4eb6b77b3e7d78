"""Measure a service: throughput beside the bare loop, latency beside a plain wrapper, memory of a tenant.

    python benchmarks/serve.py --out results/serve.json

Everything runs on one core, over loopback, with requests of one batch each. "bare forward" is the frozen network in
this process; "plain" is the smallest FastAPI application around it. The runs alternate, so that all see the same load.
Calls in this process are timed by the core's time that they use, so that other work on the machine does not count;
requests by the clock.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import platform
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
from torch import nn

from holdfast import AdaptedModel, adapt
from holdfast.models import cifar_resnet
from holdfast.serve.app import create_app
from holdfast.serve.memory import keep_freed_memory
from holdfast.serve.service import Service
from holdfast.serve.tenants import Tenants


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


@contextmanager
def listening(app: Any) -> Iterator[httpx.Client]:
    """Serve an application from a thread, and yield a client."""
    config = uvicorn.Config(app, port=0, log_level="error", ws="none", access_log=False, http="h11")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=600, trust_env=False) as client:
            yield client
    finally:
        server.should_exit = True
        thread.join()


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


def measure(batch: int, rounds: int, method: str) -> dict[str, Any]:
    """Return medians over alternating rounds, in milliseconds, and their ratios."""
    network = cifar_resnet().eval()
    inputs = torch.rand(batch, 3, 32, 32)
    body, headers = npy(inputs.numpy()), {"content-type": "application/x-npy"}
    bare: AdaptedModel = adapt(network, method)
    begun: AdaptedModel = adapt(network, method)
    with tempfile.TemporaryDirectory() as folder:
        service = Service(Tenants(network, method, guarded=False, folder=folder), batch=batch, wait=0.01)
        with listening(create_app(service)) as adapting, listening(plain(network)) as frozen:

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
            memory = service.tenants.nbytes("default")
        state = sum(path.stat().st_size for path in Path(folder).glob("*.safetensors"))
    size = sum(weight.nbytes for weight in network.parameters())
    return {
        "method": method,
        "batch": batch,
        "milliseconds": {name: round(value, 2) for name, value in medians.items()},
        "throughput of the service / bare loop": round(statistics.median(loops), 3),
        "begin / bare forward": round(medians["begin"] / medians["bare forward"], 3),
        "request / plain request": round(medians["request"] / medians["plain request"], 3),
        "state on disk / network": round(state / size, 3),
        "state in memory / network": round(memory / size, 3),
    }


def main() -> None:
    """Measure and write a JSON file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("results/serve.json"))
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--batch", type=int, default=64)
    given = parser.parse_args()
    torch.set_num_threads(1)
    keep_freed_memory()  # as `holdfast serve` does
    measured = {
        "network": "cifar_resnet (ResNet-20)",
        "torch": torch.__version__,
        "python": platform.python_version(),
        "load average at the start": round(os.getloadavg()[0], 1),
        "targets": {
            "throughput of the service / bare loop": "at least 0.8",
            "begin / bare forward": "at most 1.3",
            "request / plain request": "at most 1.15",
            "state in memory / network": "at most 0.1",
        },
        "measured": [measure(given.batch, given.rounds, method) for method in ("tent", "eta")],
    }
    given.out.write_text(json.dumps(measured, indent=1) + "\n")
    print(json.dumps(measured, indent=1))


if __name__ == "__main__":
    main()
