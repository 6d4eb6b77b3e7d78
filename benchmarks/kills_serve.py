"""Kill a service under load with labels, again and again: python benchmarks/kills_serve.py --kills 100.

Clients send batches of several tenants to `holdfast serve` and label what is asked for. SIGKILL hits the service at a
random moment; it starts again on the same folder. Then the chain of the log has to be intact, every label that was
answered `counts: true` must not count a second time, the bounds must be those that were read before if no batch came
after, every answered batch but the last of each client has to be in the log, and no state may be older than the
checkpoint interval. `--more` adds to the result in the file of `--json`.
"""

from __future__ import annotations

import argparse
import io
import json
import multiprocessing
import os
import random
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import httpx
import numpy as np
from measured import add_json, write

from holdfast.cli import app
from holdfast.serve.audit import read_audit, verify_audit

EVERY = 4  # batches between checkpoints
TENANTS = ("north", "south", "west")
RESENT = 40  # labels that are sent again after a kill
STARTING = 300.0  # seconds
PROCESSES = multiprocessing.get_context("forkserver")  # a server of forks imports everything once
PLAIN: dict[str, Any] = {"trust_env": False, "verify": False, "timeout": 60}  # no certificates to read
COMMAND = [
    "serve",
    "imported:holdfast.models.tiny:tiny_resnet",
    "--method",
    "tent",
    "--budget",
    "0.5",
    "--wait-ms",
    "0",
    "--memory-format",
    "contiguous",
]


class Client(threading.Thread):
    """Sends batches of one tenant and labels, until the service is gone."""

    def __init__(self, url: str, tenant: str, seed: int) -> None:
        super().__init__()
        self.url, self.tenant, self.rng = url, tenant, np.random.default_rng(seed)
        self.batches: list[tuple[str, int]] = []  # run and batch of each answer
        self.counted: list[tuple[str, int]] = []  # id and label that count
        self.bounds: tuple[int, Any] = (0, None)  # after so many batches with all their labels
        self.refused: list[str] = []

    def run(self) -> None:
        """Send until the connection fails."""
        with suppress(httpx.HTTPError), httpx.Client(base_url=self.url, **PLAIN) as client:
            while not self.refused:
                file = io.BytesIO()
                np.save(file, self.rng.random((4, 3, 32, 32), np.float32))
                headers = {"content-type": "application/x-npy", "X-Tenant": self.tenant}
                answer = client.post("/v1/predict", content=file.getvalue(), headers=headers)
                if answer.status_code != 200:
                    self.refused.append(answer.text)
                    continue
                served = answer.json()
                self.batches.append((served["ids"][0].rpartition("-")[2], served["batch"]))
                for name, label, wanted in zip(served["ids"], served["classes"], served["wants_label"], strict=True):
                    if wanted:
                        reply = client.post("/v1/feedback", json={"id": name, "label": label})
                        if reply.status_code != 200:
                            self.refused.append(reply.text)
                        elif reply.json()["counts"]:
                            self.counted.append((name, label))
                self.bounds = (served["batch"] + 1, bounds_of(client, self.tenant))


def serve(command: list[str], log: Path) -> None:
    """Be the service, in a process of its own."""
    with log.open("wb") as out:
        os.dup2(out.fileno(), 1)
        os.dup2(out.fileno(), 2)
    app(command)


def started(
    folder: Path, log: Path, more: Sequence[str] = ("--checkpoint-every", str(EVERY))
) -> tuple[BaseProcess, str]:
    """Start the service, and return its address."""
    log.write_bytes(b"")
    process = PROCESSES.Process(target=serve, args=([*COMMAND, "--state", str(folder), "--port", "0", *more], log))
    process.start()
    end = time.monotonic() + STARTING
    with httpx.Client(**PLAIN) as client:
        while time.monotonic() < end and process.is_alive():
            urls = [word for word in log.read_text().split() if word.startswith("http://")]
            with suppress(httpx.HTTPError):
                if urls and client.get(f"{urls[0]}readyz").status_code == 200:
                    return process, urls[0]
            time.sleep(0.05)
    process.kill()
    raise RuntimeError(f"the service did not start: {log.read_text()}")


def disturbed(url: str, process: BaseProcess, chance: random.Random) -> list[Client]:
    """Load the service, and kill it at a random moment."""
    clients = [Client(url, tenant, chance.randrange(2**31)) for tenant in TENANTS]
    for client in clients:
        client.start()
    while not all(client.batches for client in clients) and process.is_alive():
        time.sleep(0.01)
    time.sleep(chance.uniform(0, 2.0))
    process.kill()
    process.join()
    for client in clients:
        client.join()
    return clients


def bounds_of(client: httpx.Client, tenant: str) -> Any:
    """Return the bounds that labels guarantee a tenant."""
    return client.get("/v1/status", params={"tenant": tenant}).json()["bounds"]


def problems(url: str, folder: Path, clients: list[Client]) -> tuple[Counter[str], Counter[str]]:
    """Return what a restored service has lost of what it answered before, and what could be compared."""
    lost, compared = Counter[str](), Counter[str]()
    lost["broken chain"] += verify_audit(folder / "audit.db").problem is not None
    logged = {(one.tenant, one.run, one.batch) for one in read_audit(folder / "audit.db") if one.kind == "batch"}
    with httpx.Client(base_url=url, **PLAIN) as service:
        tenants = service.get("/v1/status").json()["tenants"]
        for client in clients:
            lost["refused requests"] += len(client.refused)
            answered = [(client.tenant, *one) for one in client.batches]
            lost["unlogged batches"] += sum(one not in logged for one in answered[:-1])
            lost["stale states"] += answered[-1][2] + 1 - tenants[client.tenant]["batches"] > EVERY
            if client.bounds[0] == tenants[client.tenant]["batches"]:
                lost["bounds"] += bounds_of(service, client.tenant) != client.bounds[1]
                compared["bounds"] += 1
            for name, label in client.counted[-RESENT:]:
                answer = service.post("/v1/feedback", json={"id": name, "label": label})
                lost["labels"] += answer.status_code != 200 or answer.json()["counts"]
                compared["labels"] += 1
    return lost, compared


def main() -> None:
    """Kill until there were enough, and print what was lost."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--more", action="store_true", help="go on from the result in the file of --json")
    add_json(parser)
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # with the service
    before = json.loads(given.json.read_text())["measured"] if given.more else {}
    done = before.get("kills", 0)
    chance = random.Random(given.seed + done)
    counts, lost, compared = (Counter[str](before.get(name)) for name in ("answered", "lost", "compared"))
    PROCESSES.set_forkserver_preload(
        ["__main__", "holdfast.serve.build", "holdfast.serve.run", "holdfast.serve.routes"]
    )
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "state"
        process, url = started(folder, Path(name) / "log")
        try:
            for kill in range(done, given.kills):
                clients = disturbed(url, process, chance)
                process, url = started(folder, Path(name) / "log")
                for total, these in zip((lost, compared), problems(url, folder, clients), strict=True):
                    total.update(these)
                counts["batches"] += sum(len(client.batches) for client in clients)
                counts["labels"] += sum(len(client.counted) for client in clients)
                print(f"{kill + 1} kills, {dict(counts)}, lost: {dict(+lost) or 'nothing'}", flush=True)
                measured = {"answered": dict(counts), "compared": dict(compared), "lost": dict(lost)}
                write(given.json, {"kills": kill + 1, "checkpoint_every": EVERY, **measured})
            process.terminate()
            process.join(60)
            lost["broken chain"] += verify_audit(folder / "audit.db").problem is not None
        finally:
            process.kill()
            process.join()
    sys.exit(1 if +lost else 0)


if __name__ == "__main__":
    main()
