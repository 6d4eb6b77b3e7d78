"""One job, start to end: killed at any moment and run again, its rows are those of an uninterrupted run."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from holdfast.adapted import AdaptedModel
from holdfast.benchmark.attempt import Attempt, Place, Progress
from holdfast.benchmark.manifest import make_manifest
from holdfast.benchmark.offline import offline
from holdfast.benchmark.online import online
from holdfast.benchmark.peak_memory import forget_peak
from holdfast.benchmark.recorder import Recorder
from holdfast.benchmark.suite import Job
from holdfast.calibration import calibrate
from holdfast.data import DATASETS, Dataset
from holdfast.data.tensors import as_inputs
from holdfast.folders import held
from holdfast.methods import METHODS
from holdfast.models import MODELS
from holdfast.randomness import seeded_rng
from holdfast.recipes import adapt, estimator_named, recipe_of
from holdfast.records import InputSpec
from holdfast.registry import options_of
from holdfast.streams import STREAMS, Stream

__all__ = ["Progress", "run"]


def run(
    job: Job,
    runs: Path,
    *,
    threads: int = 1,
    checkpoint_seconds: float = 10.0,
    progress: Callable[[Progress], None] | None = None,
) -> Path:
    """Carry out one job in its folder under `runs` and return the folder; a finished one is left as it is.

    The number of threads is part of the protocol: sums in another order round differently.
    """
    folder = runs / job.suite / job.name
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / "summary.json").exists():
        with held(folder), _threads(threads):
            _carry_out(job, folder, checkpoint_seconds, progress or (lambda _: None))
    elif progress:
        summary = json.loads((folder / "summary.json").read_text())
        samples, correct = summary["samples"], summary["correct"]
        progress(Progress(job.name, job.recipe["label"], samples, samples, correct, finished=True))
    return folder


def _carry_out(job: Job, folder: Path, checkpoint_seconds: float, progress: Callable[[Progress], None]) -> None:
    forget_peak()
    stream = _make_stream(job)
    total = min(filter(None, (job.samples, stream.length)), default=None)
    model, seen = _make_model(job, stream, total)
    _settle_manifest(folder / "manifest.json", make_manifest(job, model, stream, seen))
    place = Place(**model.load(folder / "state.safetensors")) if (folder / "state.safetensors").exists() else Place()
    with Recorder(folder / "rows.jsonl", keep_bytes=place.row_bytes) as recorder:
        recorder.samples, recorder.correct = place.samples, place.correct
        attempt = Attempt(job, stream, model, recorder, folder, total, checkpoint_seconds, progress, place)
        found = online(attempt) if job.protocol == "online" else offline(attempt)
        attempt.save()
    (folder / "best.safetensors").unlink(missing_ok=True)
    summary = {"samples": recorder.samples, "correct": recorder.correct}
    accuracy = recorder.correct / max(1, recorder.samples)
    _write_json(folder / "summary.json", {**summary, "accuracy": accuracy, "peak_mib": attempt.peaks, **found})
    attempt.tell(finished=True)


def _make_stream(job: Job) -> Stream:
    options = _options(job.stream, without={"data", "collapse"})
    data = _read_data(json.dumps(job.stream["data"]))
    make = STREAMS[job.stream["name"]]
    if getattr(make, "needs_model", False):  # its severities are chosen for the model, as it is before any adaptation
        options["calibrate"] = partial(calibrate, MODELS[job.model["name"]](**_options(job.model)))
    return make(data, **options, seed=job.seed)


@lru_cache(maxsize=2)  # jobs that follow each other draw from the same data, and decoding it can take as long as a run
def _read_data(entry: str) -> Dataset:
    """Return the data set of a suite's entry, given as JSON; nobody writes into one."""
    options = json.loads(entry)
    data: Dataset = DATASETS[options["name"]](**_options(options))
    return data


def _make_model(job: Job, stream: Stream, total: int | None) -> tuple[AdaptedModel, dict[str, str]]:
    """Return the adapted model, and in words which source data it has seen, by protocol field."""
    name = job.recipe["name"]
    kind = METHODS[recipe_of(name).method]
    module = MODELS[job.model["name"]](**_options(job.model))
    estimators = {
        entry["label"]: estimator_named(entry["name"], **{"seed": job.seed, **_options(entry)})
        for entry in job.estimators
    }
    source, holdout, seen = None, None, {"source_data": "none"}
    if kind.needs_source:
        source, seen["source_data"] = _source_inputs(job, stream)
    if job.holdout is not None:
        holdout, seen["holdout_data"] = _holdout(job.holdout, job, stream)
    options = {**_options(job.recipe), "seed": job.seed, "example": _example_for(module, stream.input_spec)}
    if job.protocol != "online" and total and "batches_per_epoch" in options_of(kind):
        start, stop = stream.episodes(total)[0]
        options.setdefault("batches_per_epoch", -(-(stop - start) // job.batch_size))
    return adapt(module, name, estimator=estimators, source=source, holdout=holdout, **options), seen


def _example_for(module: nn.Module, given: InputSpec) -> Tensor | None:
    """Return a sound of the stream's length, for a network that does not say what it hears; refuse one that differs."""
    stated = (getattr(part, "input_spec", None) for part in module.modules())
    wanted = next((spec for spec in stated if isinstance(spec, InputSpec)), None)
    if wanted is not None and wanted != given:
        raise ValueError(
            f"the model takes {wanted.kind} {wanted.shape} at {wanted.sample_rate} Hz, and the stream gives "
            f"{given.kind} {given.shape} at {given.sample_rate} Hz; choose data, or a rate and length of it, that fit"
        )
    return torch.zeros(1, *given.shape) if given.kind == "audio" and wanted is None else None


def _source_inputs(job: Job, stream: Stream) -> tuple[Sequence[Tensor], str]:
    """Return batches of unlabelled source inputs, drawn without a look at the stream's labels."""
    assert job.source is not None  # checked when the suite was read
    if job.source["name"] == "stream":
        samples = int(job.source["samples"])
        return stream.first(samples).split(job.batch_size), f"the first {samples} inputs of the stream"
    data, inputs, _ = _drawn(job.source, job.seed, "source inputs")
    return inputs.split(job.batch_size), f"{len(inputs)} inputs of {data.name} ({data.digest[:8]})"


def _holdout(entry: Mapping[str, Any], job: Job, stream: Stream) -> tuple[Sequence[tuple[Tensor, Tensor]], str]:
    """Return batches of held-out source data with their labels, none of which are in the stream."""
    data, inputs, labels = _drawn(entry, job.seed, "held-out data")
    if data.digest == stream.data.digest:
        raise ValueError(f"the held-out data are those of the stream, {data.name}; hold out others")
    batches = list(zip(inputs.split(job.batch_size), labels.split(job.batch_size), strict=True))
    return batches, f"{len(inputs)} inputs of {data.name} with labels ({data.digest[:8]})"


def _drawn(entry: Mapping[str, Any], seed: int, purpose: str) -> tuple[Dataset, Tensor, Tensor]:
    """Return a data set, and some of its inputs and labels, drawn without a look at them."""
    data = _read_data(json.dumps({key: value for key, value in entry.items() if key != "samples"}))
    chosen = np.sort(seeded_rng(seed, purpose).permutation(len(data.labels))[: int(entry["samples"])])
    return data, as_inputs(data.inputs(chosen)), torch.from_numpy(data.labels[chosen])


def _options(entry: Any, without: frozenset[str] | set[str] = frozenset()) -> dict[str, Any]:
    return {key: value for key, value in entry.items() if key not in {"name", "label", *without}}


def _settle_manifest(path: Path, manifest: dict[str, Any]) -> None:
    """Write the manifest of a new run, or make sure that a run goes on under the protocol it began with."""
    manifest = json.loads(json.dumps(manifest))
    if not path.exists():
        _write_json(path, manifest)
        return
    before = json.loads(path.read_text())
    differing = [key for key, value in manifest["protocol"].items() if before["protocol"].get(key) != value]
    if differing:
        told = ", ".join(
            f"{key} was {before['protocol'].get(key)} and is {manifest['protocol'][key]}" for key in differing
        )
        raise ValueError(f"{path.parent} was begun under another protocol: {told}; delete the folder to begin again")


def _write_json(path: Path, content: Any) -> None:
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.write_text(json.dumps(content, indent=1))
    os.replace(temporary, path)


@contextmanager
def _threads(count: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
