"""Check that the memory of a service stays constant: python benchmarks/soak_serve.py --json results/soak-serve.json.

5 000 requests of 200 tenants in random order go to `holdfast serve` with a guarded method, more tenants than stay in
memory: states are written, read and swapped all the time. Every second label that is asked for is sent. The resident
memory of the service is read after each tenth of the requests; it has warmed up when all tenants were served.
"""

from __future__ import annotations

import argparse
import io
import sys
import tempfile
from pathlib import Path

import httpx
import numpy as np
from kills_serve import PLAIN, started
from measured import add_json, write

MARKS = 10
WARM = 3  # of them
TOLERANCE_MB = 16  # of allocators, and of the last decisions of each tenant


def resident_mb(process: int | None) -> float:
    """Return the resident memory of a process."""
    return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * 4096 / 1e6


def main() -> None:
    """Send requests, and print what the service takes."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--requests", type=int, default=5000)
    parser.add_argument("--tenants", type=int, default=200)
    add_json(parser)
    given = parser.parse_args()
    rng, refused, labels, resident = np.random.default_rng(0), 0, 0, []
    with tempfile.TemporaryDirectory() as name:
        process, url = started(Path(name) / "state", Path(name) / "log")
        try:
            with httpx.Client(base_url=url, **PLAIN) as client:
                for number in range(1, given.requests + 1):
                    file = io.BytesIO()
                    np.save(file, rng.random((1, 3, 32, 32), np.float32))
                    headers = {"content-type": "application/x-npy", "X-Tenant": f"t{rng.integers(given.tenants)}"}
                    answer = client.post("/v1/predict", content=file.getvalue(), headers=headers)
                    refused += answer.status_code != 200
                    if answer.status_code == 200 and answer.json()["wants_label"][0] and number % 2:
                        label = {"id": answer.json()["ids"][0], "label": answer.json()["classes"][0]}
                        labels += client.post("/v1/feedback", json=label).json()["counts"]
                    if number % (given.requests // MARKS) == 0:
                        resident.append(round(resident_mb(process.pid), 1))
                        print(f"{number} requests, {resident[-1]} MB", flush=True)
        finally:
            process.kill()
            process.join()
    grown = round(max(resident[WARM:]) - resident[WARM - 1], 1)
    measured = {"requests": given.requests, "tenants": given.tenants, "labels": labels, "refused": refused}
    write(given.json, {**measured, "resident_mb": resident, "growth_mb": grown})
    print(f"after the first {WARM} of {MARKS} marks memory grew by {grown} MB, {refused} requests were refused")
    sys.exit(1 if grown > TOLERANCE_MB or refused else 0)


if __name__ == "__main__":
    main()
