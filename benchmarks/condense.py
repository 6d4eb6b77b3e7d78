"""Make one small file of a folder of runs: `python benchmarks/condense.py runs/ccc-cifar10 results/ccc-cifar10.json`.

For each run: its manifest, its summary with the peak memory, and its accuracy in windows along the stream.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

from holdfast.report import RunRecord, read_runs

WINDOW = 1000  # samples


def condensed(run: RunRecord) -> dict[str, Any]:
    """Return what is worth keeping of one run."""
    window = (run.rows.ends - 1) // WINDOW  # a batch belongs to the one that it ends in
    correct, samples = (np.bincount(window, counts) for counts in (run.rows.correct, run.rows.size))
    return {
        "recipe": run.manifest.recipe.label,
        "summary": json.loads((run.folder / "summary.json").read_text()),
        "resets": sum(reason is not None for reason in run.rows.recovered),
        "window_samples": WINDOW,
        "window_accuracy": np.round(correct / np.maximum(samples, 1), 4).tolist(),
        "manifest": json.loads((run.folder / "manifest.json").read_text()),
    }


def main() -> None:
    """Read the runs and write the file; one that is not finished is left out and named."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("runs", type=Path)
    parser.add_argument("out", type=Path)
    options = parser.parse_args()
    runs = read_runs(options.runs)
    for run in runs:
        if not run.finished:
            print(f"left out, not finished: {run.folder}")
    content = [condensed(run) for run in runs if run.finished]
    options.out.write_text(json.dumps(content, indent=1) + "\n")
    print(f"{len(content)} runs in {options.out}")


if __name__ == "__main__":
    main()
