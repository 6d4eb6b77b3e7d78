"""Run one job in its folder; an interrupted run resumes, and its rows are those of an uninterrupted one."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from holdfast.benchmark.attempt import Attempt, Place, Progress
from holdfast.benchmark.building import build
from holdfast.benchmark.finished import check_finished, forget_inputs, read_manifest
from holdfast.benchmark.job import Job
from holdfast.benchmark.manifest import make_manifest
from holdfast.benchmark.offline import offline
from holdfast.benchmark.online import online
from holdfast.benchmark.peak_memory import forget_peak
from holdfast.benchmark.recorder import Recorder
from holdfast.folders import held, sweep, write_whole

__all__ = ["run"]


def run(
    job: Job,
    runs: Path,
    *,
    threads: int = 1,
    checkpoint_seconds: float = 10.0,
    progress: Callable[[Progress], None] | None = None,
) -> Path:
    """Run one job in its folder under `runs` and return the folder; a finished run is not repeated.

    The number of threads is part of the protocol: sums in another order round differently.
    """
    folder = runs / job.suite / job.name
    folder.mkdir(parents=True, exist_ok=True)
    summary = folder / "summary.json"
    if not summary.exists():
        with held(folder), _threads(threads):
            sweep(folder)
            if not summary.exists():  # another process may have finished it meanwhile
                _carry_out(job, folder, checkpoint_seconds, progress or (lambda _: None))
                return folder
    forget_inputs()
    check_finished(job, folder)
    _tell_finished(job, folder, progress)
    return folder


def _tell_finished(job: Job, folder: Path, progress: Callable[[Progress], None] | None) -> None:
    if progress:
        summary = json.loads((folder / "summary.json").read_text())
        samples, correct = summary["samples"], summary["correct"]
        progress(Progress(job.name, job.recipe.label, samples, samples, correct, finished=True))


def _carry_out(job: Job, folder: Path, checkpoint_seconds: float, progress: Callable[[Progress], None]) -> None:
    forget_peak()
    built = build(job)
    _settle_manifest(folder / "manifest.json", make_manifest(job, built))
    state = folder / "state.safetensors"
    place = Place(**built.model.load(state)) if state.exists() else Place()
    with Recorder(folder / "rows.jsonl", keep_bytes=place.row_bytes) as recorder:
        recorder.samples, recorder.correct = place.samples, place.correct
        attempt = Attempt(
            job, built.stream, built.model, recorder, folder, built.total, checkpoint_seconds, progress, place
        )
        with job.placement.computing():
            found = online(attempt) if job.protocol == "online" else offline(attempt)
        attempt.save()
    for left in (*folder.glob("best-*.safetensors"), folder / "redrawn.npy"):
        left.unlink(missing_ok=True)
    summary = {"samples": recorder.samples, "correct": recorder.correct}
    accuracy = recorder.correct / max(1, recorder.samples)
    _write_json(folder / "summary.json", {**summary, "accuracy": accuracy, "peak_mib": attempt.peaks, **found})
    attempt.tell(finished=True)


def _settle_manifest(path: Path, manifest: dict[str, Any]) -> None:
    """Write the manifest of a new run, or check that a resumed run keeps the protocol it began with."""
    manifest = json.loads(json.dumps(manifest))
    if not path.exists():
        _write_json(path, manifest)
        return
    before = read_manifest(path)
    differing = [key for key, value in manifest["protocol"].items() if before["protocol"].get(key) != value]
    if differing:
        changes = ", ".join(
            f"{key} was {before['protocol'].get(key)} and is {manifest['protocol'][key]}" for key in differing
        )
        raise ValueError(f"{path.parent} was begun under another protocol: {changes}; delete the folder to start again")


def _write_json(path: Path, content: Any) -> None:
    write_whole(path, json.dumps(content, indent=1).encode())


@contextmanager
def _threads(count: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
