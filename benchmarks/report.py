"""Make a folder of many runs, and measure time and memory of their report: python benchmarks/report.py --runs 10000.

Figures are processor time and the peak memory of the process.
"""

from __future__ import annotations

import argparse
import json
import resource
import tempfile
import time
from pathlib import Path
from typing import Any

from measured import run

from holdfast.report import make_report, write_report

RECIPES, BATCHES, SIZE = 10, 30, 64


def write_runs(folder: Path, runs: int) -> None:
    """Write finished runs of ten recipes on as many streams and seeds as it takes."""
    for number in range(runs):
        recipe, seed = number % RECIPES, number // RECIPES % 10
        stream = number // (10 * RECIPES)
        run_folder = folder / f"run{number:05}"
        run_folder.mkdir(parents=True)
        protocol = {"stream": str(stream), "seed": seed, "model": "net", "weights": "w", "batch_size": SIZE}
        protocol |= {"preprocessing": "", "order": "", "recovery": "never", "source_data": "none", "metric": "accuracy"}
        name = "source" if recipe == 0 else f"recipe{recipe}"
        manifest = {
            "schema": 1,
            "suite": "many",
            "job": run_folder.name,
            "place": number,
            "recipe": {"name": name, "label": name, "method": name},
            "model": {"name": "net", "parameters": 1000, "normalisation": "batch"},
            "stream": {"name": "continual", "label": f"stream{stream}", "domains": ["fog"], "length": BATCHES * SIZE},
            "seed": seed,
            "protocol": {**protocol, "threads": 1, "versions": {"holdfast": "0.1.0"}},
            "fingerprint": f"{stream}-{recipe}",
        }
        (run_folder / "manifest.json").write_text(json.dumps(manifest))
        rows = []
        for batch in range(BATCHES):
            correct = (recipe + batch + seed) % SIZE
            row = {"position": batch * SIZE, "size": SIZE, "domains": {"fog": [correct, SIZE]}, "loss": None}
            row |= {"accuracy": correct / SIZE, "confidence": 0.8, "entropy": 0.5, "estimates": {}, "recovered": None}
            rows.append({**row, "skipped": None, "forwards": 1.0, "backwards": 0.0, "step_seconds": 0.01})
        (run_folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        correct = sum(row["domains"]["fog"][0] for row in rows)  # type: ignore[index]
        (run_folder / "summary.json").write_text(json.dumps({"samples": BATCHES * SIZE, "correct": correct}))


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Write the runs, make their report, and return seconds and mebibytes."""
    runs = 500 if options.quick else options.runs
    with tempfile.TemporaryDirectory() as folder:
        write_runs(Path(folder), runs)
        began = time.process_time()
        report = make_report(Path(folder))
        made = time.process_time()
        write_report(report, Path(folder) / "report.html")
        ended = time.process_time()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"runs": runs, "read_seconds": made - began, "write_seconds": ended - made, "peak_mib": peak}


def main() -> None:
    """Measure in several processes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=10_000)
    run(parser, measure)


if __name__ == "__main__":
    main()
