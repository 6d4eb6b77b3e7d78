"""Run jobs in their folders; an interrupted run resumes, and its rows are those of an uninterrupted one."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from holdfast.benchmark.attempt import Attempt, Checkpoint, Progress, Tell
from holdfast.benchmark.building import build
from holdfast.benchmark.finished import check_finished, forget_inputs, settle_manifest, write_json
from holdfast.benchmark.foreign_code import keep_files
from holdfast.benchmark.job import Job
from holdfast.benchmark.manifest import make_manifest
from holdfast.benchmark.offline import offline
from holdfast.benchmark.online import online
from holdfast.benchmark.peak_memory import forget_peak
from holdfast.benchmark.prefetch import Prefetch, usable_cores
from holdfast.benchmark.recorder import Recorder
from holdfast.benchmark.strip import write_strip
from holdfast.decode.row_tables import compact
from holdfast.machine.devices import threads
from holdfast.machine.folders import InUseError, held, sweep
from holdfast.streams import Stream

LONG = 8 * 2**20  # bytes of JSON lines beyond which a finished run keeps its rows as Parquet only


def run(
    job: Job,
    runs: Path,
    *,
    threads: int = 1,
    checkpoint_seconds: float = 10.0,
    render_workers: int | None = 0,
    progress: Tell | None = None,
) -> Path:
    """Run one job in its folder under `runs` and return the folder; a finished run is not repeated.

    The number of threads is part of the protocol: sums in another order round differently. The rows do not depend on
    `render_workers`.

    Args:
        job: of a suite.
        runs: folder of the runs.
        threads: of torch.
        checkpoint_seconds: time between saved states.
        render_workers: processes that render ahead; None chooses by what it measures.
        progress: a function that is called with each `Progress`.
    """
    if job.is_finished(runs):
        forget_inputs()  # so that a change since is noticed
    (outcome,) = run_together([job], runs, Pace(threads, checkpoint_seconds, render_workers), progress)
    if outcome.failure is not None:
        raise outcome.failure
    return outcome.folder


@dataclass(frozen=True)
class Pace:
    """How runs are carried out; nothing here changes their rows, except for the threads, which the protocol names."""

    threads: int = 1
    checkpoint_seconds: float = 10.0
    render_workers: int | None = 0  # None: chosen by measurement
    cores: int = field(default_factory=usable_cores)  # for this process and its render workers


@dataclass(frozen=True)
class Ended:
    """How one run of a group ended."""

    job: Job
    folder: Path
    failure: Exception | None = None
    rendering_share: float | None = None  # of the time; None: nothing was run


def run_together(jobs: Sequence[Job], runs: Path, pace: Pace, progress: Tell | None = None) -> list[Ended]:
    """Run jobs that share their batches (`groups_of`) in lock-step, and say how each ended.

    Each has its own folder, state and failure; a run that is finished or fails leaves the others alone.
    """
    tell: Tell = progress or (lambda _: None)
    ended: dict[str, Ended] = {}
    with threads(pace.threads), ExitStack() as closing:
        attempts: list[Attempt] = []
        for job in jobs:
            folder = job.folder(runs)
            try:
                if job.is_finished(runs):
                    _tell_finished(job, folder, tell)
                    ended[job.name] = Ended(job, folder)
                    continue
                shared = attempts[0].stream if attempts else None
                attempt = closing.enter_context(_opened(job, folder, shared, pace.checkpoint_seconds, tell))
            except InUseError as error:
                ended[job.name] = Ended(job, folder, error)
                if not attempts:  # then the process that runs the first of a group has the others too
                    ended |= {other.name: Ended(other, folder, error) for other in jobs if other.name not in ended}
                    break
            except Exception as error:
                ended[job.name] = Ended(job, folder, error)
            else:
                attempts.append(attempt)
        if attempts:
            share = None
            try:
                share = _carry_out(attempts, pace)
            except Exception as error:  # of what they share: a file of the data, or the disk
                for attempt in attempts:
                    attempt.fail(attempt.failure or error)
            ended |= {a.job.name: Ended(a.job, a.folder, a.failure, share) for a in attempts}
    return [ended[job.name] for job in jobs]


def _tell_finished(job: Job, folder: Path, tell: Tell) -> None:
    check_finished(job, folder)
    summary = json.loads((folder / "summary.json").read_text())
    samples, correct = summary["samples"], summary["correct"]
    tell(Progress(job.name, job.label, samples, samples, correct, finished=True))


@contextmanager
def _opened(job: Job, folder: Path, stream: Stream | None, checkpoint_seconds: float, tell: Tell) -> Iterator[Attempt]:
    """Lock the folder of a run and return the run at its checkpoint; the stream may be that of another run."""
    folder.mkdir(parents=True, exist_ok=True)
    with held(folder):
        sweep(folder)
        forget_peak()
        built = build(job, stream)
        settle_manifest(folder / "manifest.json", make_manifest(job, built))
        keep_files(folder, job.imports)
        state = folder / "state.safetensors"
        checkpoint = Checkpoint(**built.model.load(state)) if state.exists() else Checkpoint()
        kept = {"keep_bytes": checkpoint.row_bytes, "samples": checkpoint.samples, "correct": checkpoint.correct}
        with Recorder(folder / "rows.jsonl", **kept) as recorder:
            yield Attempt(
                job, built.stream, built.model, recorder, folder, built.total, checkpoint_seconds, tell, checkpoint
            )


def _carry_out(attempts: Sequence[Attempt], pace: Pace) -> float:
    """Run attempts to their end or failure, and return the share of the time that rendering took."""
    first = attempts[0]
    write_strip(first.folder.parent / "strips", first.stream, first.job.seed, first.total)
    with first.job.placement.computing(), Prefetch(first.stream, pace.render_workers, pace.cores) as prefetch:
        if first.job.is_online:
            online(attempts, prefetch)
            details: dict[str, Any] = {}
        else:
            details = _offline(first, prefetch, pace)
        share = prefetch.rendering_share
    for attempt in attempts:
        if attempt.failure is None:
            try:
                _finish(attempt, {**details, "rendering_share": round(share, 3)})
            except Exception as error:
                attempt.fail(error)
    return share


def _offline(attempt: Attempt, prefetch: Prefetch, pace: Pace) -> dict[str, Any]:
    try:
        with Prefetch(attempt.stream.redrawn(), pace.render_workers, pace.cores) as redrawn:
            return offline(attempt, prefetch, redrawn)
    except Exception as error:
        attempt.fail(error)
        return {}


def _finish(attempt: Attempt, details: dict[str, Any]) -> None:
    """Save the last state, and write the summary, which makes a run finished."""
    attempt.save()
    recorder, folder = attempt.recorder, attempt.folder
    for left in (*folder.glob("best-*.safetensors"), folder / "redrawn.npy"):
        left.unlink(missing_ok=True)
    compacted = compact(folder)
    accuracy = recorder.correct / max(1, recorder.samples)
    summary = {"samples": recorder.samples, "correct": recorder.correct, "accuracy": accuracy}
    write_json(folder / "summary.json", {**summary, "peak_mib": attempt.peaks, **details})
    rows = folder / "rows.jsonl"
    if compacted is not None and rows.stat().st_size > LONG:
        rows.unlink()  # only now: a run without a summary resumes from its lines
    attempt.tell(finished=True)
