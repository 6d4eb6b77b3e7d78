"""Condense a folder of runs into one file: `python benchmarks/condense.py runs/ccc-cifar10 results/ccc-cifar10.json`.

It holds for each run the manifest, the summary with the peak memory, the accuracy in windows along the stream and, if
accuracy was estimated, the estimates and the accuracy of every batch; `--batches` keeps that of every run. Parts of
manifests that runs share (network, stream, recipe, protocol) are written once under `parts`, and manifests refer to
them by name.
"""

from __future__ import annotations

import argparse
import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from holdfast.report import RunRecord, read_runs

WINDOW = 1000  # samples


def condensed(run: RunRecord, *, batches: bool = False) -> dict[str, Any]:
    """Return the condensed record of one run; with `batches`, the accuracy of every batch too."""
    window = (run.rows.ends - 1) // WINDOW  # a batch belongs to the window that it ends in
    correct, samples = (np.bincount(window, counts) for counts in (run.rows.correct, run.rows.size))
    kept = {
        "recipe": run.manifest.recipe.label,
        "summary": json.loads((run.folder / "summary.json").read_text()),
        "resets": sum(reason is not None for reason in run.rows.recovered),
        "window_samples": WINDOW,
        "window_accuracy": np.round(correct / np.maximum(samples, 1), 4).tolist(),
    }
    if run.rows.estimates or batches:
        kept["batch_accuracy"] = np.round(run.rows.accuracy, 4).tolist()
    if run.rows.estimates:
        columns = run.rows.estimates.items()
        kept["estimates"] = {name: _rounded(column.value) for name, column in columns}
        intervals = {name: np.column_stack([column.low, column.high]) for name, column in columns}
        kept["intervals"] = {name: _rounded(column) for name, column in intervals.items() if not np.isnan(column).all()}
        kept["gains"] = {name: _rounded(column.gain) for name, column in columns if not np.isnan(column.gain).all()}
        alarms = {name: [batch for batch, reason in enumerate(column.alarm) if reason] for name, column in columns}
        kept |= {"alarm_batches": alarms} if any(alarms.values()) else {}
        kept["reset_batches"] = [batch for batch, reason in enumerate(run.rows.recovered) if reason is not None]
    manifest = json.loads((run.folder / "manifest.json").read_text())
    manifest |= {"published": None if run.manifest.published is None else asdict(run.manifest.published)}
    manifest.pop("resolved", None)  # redundant with the other parts
    return {**kept, "manifest": manifest}


def imports_of(runs: Sequence[RunRecord]) -> list[dict[str, str]]:
    """Return every Python file outside the package that runs depend on, once, so that `holdfast verify` has it."""
    files = dict.fromkeys((path.name, path.read_text()) for run in runs for path in run.folder.glob("imports/*.py"))
    return [{"name": name, "text": text} for name, text in files]


def _rounded(values: Any) -> Any:
    """Return nested lists rounded to four digits, with null for NaN."""
    return [
        _rounded(value) if np.ndim(value) else None if np.isnan(value) else round(float(value), 4) for value in values
    ]


def shared(runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the runs with shared parts of their manifests written once."""
    parts: dict[str, Any] = {}

    def name_of(part: dict[str, Any]) -> str:
        name = hashlib.blake2b(json.dumps(part, sort_keys=True).encode(), digest_size=4).hexdigest()
        parts[name] = part
        return name

    named = [
        {
            **run,
            "manifest": {
                key: name_of(value) if isinstance(value, dict) else value for key, value in run["manifest"].items()
            },
        }
        for run in runs
    ]
    return {"parts": parts, "runs": named}


def one_line_each(content: dict[str, Any]) -> str:
    """Return JSON with one line per part and per run, so that a change to one of them changes one line."""
    parts = ",\n".join(f"{json.dumps(name)}: {json.dumps(part)}" for name, part in content["parts"].items())
    runs = ",\n".join(map(json.dumps, content["runs"]))
    imports = f', "imports": {json.dumps(content["imports"])}' if content.get("imports") else ""
    return f'{{"parts": {{\n{parts}\n}}, "runs": [\n{runs}\n]{imports}}}\n'


def main() -> None:
    """Read the runs and write the file; skip unfinished runs and print their names."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("runs", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--batches", action="store_true", help="keep the accuracy of every batch")
    options = parser.parse_args()
    runs = read_runs(options.runs)
    for run in runs:
        if not run.finished:
            print(f"Skipping unfinished run {run.folder}")
    content = shared([condensed(run, batches=options.batches) for run in runs if run.finished])
    content["imports"] = imports_of([run for run in runs if run.finished])
    options.out.write_text(one_line_each(content))
    print(f"Wrote {len(content['runs'])} runs to {options.out}")


if __name__ == "__main__":
    main()
