"""Kill a service under load with labels, again and again: python benchmarks/kills_serve.py --kills 100.

Clients send batches of several tenants to `holdfast serve` and label what is asked for. SIGKILL hits the service at a
random moment; it starts again on the same folder. Then the chain of the log has to be intact, every label that was
answered `counts: true` must not count a second time, the bounds must know at least as many labels, every answered
batch but the last of each client has to be in the log, and no state may be older than the checkpoint interval.
"""

from __future__ import annotations

import argparse
import io
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import httpx
import numpy as np
from measured import add_json, write

from holdfast.serve.audit import read_audit, verify_audit

EVERY = 4  # batches between checkpoints
TENANTS = ("north", "south", "west")
RESENT = 40  # labels that are sent again after a kill
STARTING = 120.0  # seconds
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
                answered = answer.json()
                self.batches.append((answered["ids"][0].rpartition("-")[2], answered["batch"]))
                for name, label, wanted in zip(
                    answered["ids"], answered["classes"], answered["wants_label"], strict=True
                ):
                    if wanted:
                        reply = client.post("/v1/feedback", json={"id": name, "label": label})
                        if reply.status_code != 200:
                            self.refused.append(reply.text)
                        elif reply.json()["counts"]:
                            self.counted.append((name, label))


def started(folder: Path, log: Path) -> tuple[subprocess.Popen[bytes], str]:
    """Start the service, and return its address."""
    options = ["--state", str(folder), "--port", "0", "--checkpoint-every", str(EVERY)]
    with log.open("wb") as out:
        process = subprocess.Popen([sys.executable, "-u", "-m", "holdfast", *COMMAND, *options], stdout=out, stderr=out)
    end = time.monotonic() + STARTING
    while time.monotonic() < end and process.poll() is None:
        urls = [word for word in log.read_text().split() if word.startswith("http://")]
        with suppress(httpx.HTTPError):
            if urls and httpx.get(f"{urls[0]}readyz", trust_env=False).status_code == 200:
                return process, urls[0]
        time.sleep(0.05)
    raise RuntimeError(f"the service did not start: {log.read_text()}")


def disturbed(url: str, process: subprocess.Popen[bytes], chance: random.Random) -> list[Client]:
    """Load the service, and kill it at a random moment."""
    clients = [Client(url, tenant, chance.randrange(2**31)) for tenant in TENANTS]
    for client in clients:
        client.start()
    while not all(client.batches for client in clients) and process.poll() is None:
        time.sleep(0.01)
    time.sleep(chance.uniform(0, 2.0))
    process.send_signal(signal.SIGKILL)
    process.wait()
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
            process.terminate()
            process.wait(60)
            lost["broken chain"] += verify_audit(folder / "audit.db").problem is not None
        finally:
            process.kill()
            process.wait()
    write(given.json, {"kills": given.kills, "checkpoint_every": EVERY, "answered": dict(counts), "lost": dict(lost)})
    sys.exit(1 if +lost else 0)


if __name__ == "__main__":
    main()
