"""Measure whether the memory of a service stays constant: python benchmarks/soak_serve.py [--json FILE].

Requests of many tenants in random order go to `holdfast serve` with `tent`, more tenants than stay in memory: states
are written, read and swapped all the time. The resident memory of the service is read after each tenth of the
requests; it has warmed up when all tenants were served.
"""

from __future__ import annotations

import argparse
import io
import tempfile
from pathlib import Path
from typing import Any

import httpx
import numpy as np
from kills_serve import PLAIN, started
from measured import run

MARKS = 10
WARM = 3  # of them


def resident_mb(process: int | None) -> float:
    """Return the resident memory of a process."""
    return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * 4096 / 1e6


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Send requests, and return what the service takes."""
    requests, tenants = (200, 20) if options.quick else (options.requests, options.tenants)
    rng, refused, resident = np.random.default_rng(0), 0, dict[str, float]()
    with tempfile.TemporaryDirectory() as name:
        process, url = started(Path(name) / "state", Path(name) / "log", ["--no-guard"])
        try:
            with httpx.Client(base_url=url, **PLAIN) as client:
                for number in range(1, requests + 1):
                    file = io.BytesIO()
                    np.save(file, rng.random((1, 3, 32, 32), np.float32))
                    headers = {"content-type": "application/x-npy", "X-Tenant": f"t{rng.integers(tenants)}"}
                    answer = client.post("/v1/predict", content=file.getvalue(), headers=headers)
                    refused += answer.status_code != 200
                    if number % (requests // MARKS) == 0:
                        resident[f"resident_mb_at_{number / requests:.0%}"] = resident_mb(process.pid)
        finally:
            process.kill()
            process.join()
    values = list(resident.values())
    grown = max(values[WARM:]) - values[WARM - 1]
    counts = {"requests": requests, "tenants": tenants, "refused": refused}
    return {**counts, **resident, "growth_mb": grown}


def main() -> None:
    """Measure in several processes."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--requests", type=int, default=5000)
    parser.add_argument("--tenants", type=int, default=200)
    run(parser, measure)


if __name__ == "__main__":
    main()
