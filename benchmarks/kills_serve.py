"""Kill a service under load with labels, again and again: python benchmarks/kills_serve.py --kills 100.

Clients send batches of several tenants to `holdfast serve` and label what is asked for. SIGKILL hits the service at a
random moment; it starts again on the same folder. Then the chain of the log has to be intact, every label that was
answered `counts: true` must not count a second time, the bounds that the labels gave must stand, every answered batch
but the last of each client has to be in the log, and no state may be older than the checkpoint interval.
"""

from __future__ import annotations

import argparse
import io
import multiprocessing
import os
import random
import sys
import tempfile
import threading
import time
from collections import Counter
from contextlib import suppress
from multiprocessing.process import BaseProcess
from pathlib import Path

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
COMMAND = [
    "serve",
    "imported:holdfast.models.tiny:tiny_resnet",
    "--method",
    "tent",
    "--budget",
    "0.5",
    "--wait-ms",
    "0",
]


class Client(threading.Thread):
    """Sends batches of one tenant and labels, until the service is gone."""

    def __init__(self, url: str, tenant: str, seed: int) -> None:
        super().__init__()
        self.url, self.tenant, self.rng = url, tenant, np.random.default_rng(seed)
        self.batches: list[tuple[str, int]] = []  # run and batch of each answer
        self.counted: list[tuple[str, int]] = []  # id and label that count
        self.bounded = False  # whether the labels gave a bound of the accuracy
        self.refused: list[str] = []

    def run(self) -> None:
        """Send until the connection fails."""
        with suppress(httpx.HTTPError), httpx.Client(base_url=self.url, trust_env=False, timeout=60) as client:
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
                bounds = client.get("/v1/status", params={"tenant": self.tenant}).json()["bounds"]["accuracy"]
                self.bounded |= bounds != [0.0, 1.0]


def serve(options: list[str], log: Path) -> None:
    """Be the service, in a process of its own."""
    with log.open("wb") as out:
        os.dup2(out.fileno(), 1)
        os.dup2(out.fileno(), 2)
    app([*COMMAND, *options])


def started(folder: Path, log: Path) -> tuple[BaseProcess, str]:
    """Start the service, and return its address."""
    log.write_bytes(b"")
    options = ["--state", str(folder), "--port", "0", "--checkpoint-every", str(EVERY)]
    process = PROCESSES.Process(target=serve, args=(options, log))
    process.start()
    end = time.monotonic() + STARTING
    while time.monotonic() < end and process.is_alive():
        urls = [word for word in log.read_text().split() if word.startswith("http://")]
        with suppress(httpx.HTTPError):
            if urls and httpx.get(f"{urls[0]}readyz", trust_env=False).status_code == 200:
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


def problems(url: str, folder: Path, clients: list[Client]) -> Counter[str]:
    """Return what a restored service has lost of what it answered before."""
    lost: Counter[str] = Counter()
    lost["broken chain"] += verify_audit(folder / "audit.db").problem is not None
    logged = {(one.tenant, one.run, one.batch) for one in read_audit(folder / "audit.db") if one.kind == "batch"}
    with httpx.Client(base_url=url, trust_env=False, timeout=60) as service:
        tenants = service.get("/v1/status").json()["tenants"]
        for client in clients:
            lost["refused requests"] += len(client.refused)
            answered = [(client.tenant, *one) for one in client.batches]
            lost["unlogged batches"] += sum(one not in logged for one in answered[:-1])
            lost["stale states"] += answered[-1][2] + 1 - tenants[client.tenant]["batches"] > EVERY
            bounds = service.get("/v1/status", params={"tenant": client.tenant}).json()["bounds"]["accuracy"]
            lost["bounds"] += client.bounded and bounds == [0.0, 1.0]
            for name, label in client.counted[-RESENT:]:
                answer = service.post("/v1/feedback", json={"id": name, "label": label})
                lost["labels"] += answer.status_code != 200 or answer.json()["counts"]
    return lost


def main() -> None:
    """Kill until there were enough, and print what was lost."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    add_json(parser)
    given = parser.parse_args()
    PROCESSES.set_forkserver_preload(
        ["__main__", "holdfast.serve.build", "holdfast.serve.run", "holdfast.serve.routes"]
    )
    chance, lost, counts = random.Random(given.seed), Counter[str](), Counter[str]()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "state"
        process, url = started(folder, Path(name) / "log")
        try:
            for kill in range(given.kills):
                clients = disturbed(url, process, chance)
                process, url = started(folder, Path(name) / "log")
                lost.update(problems(url, folder, clients))
                counts["batches"] += sum(len(client.batches) for client in clients)
                counts["labels"] += sum(len(client.counted) for client in clients)
                print(f"{kill + 1} kills, {dict(counts)}, lost: {dict(+lost) or 'nothing'}", flush=True)
                measured = {"checkpoint_every": EVERY, "answered": dict(counts), "lost": dict(lost)}
                write(given.json, {"kills": kill + 1, **measured})  # now: a long run may itself be ended
            process.terminate()
            process.join(60)
            lost["broken chain"] += verify_audit(folder / "audit.db").problem is not None
        finally:
            process.kill()
            process.join()
    sys.exit(1 if +lost else 0)


if __name__ == "__main__":
    main()
