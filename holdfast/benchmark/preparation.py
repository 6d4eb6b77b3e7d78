"""What a suite needs before it can run: data, weights, calibrations and packages, each once, and what it will cost."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch

from holdfast.benchmark.job import Job
from holdfast.benchmark.sources import PACKAGES, SIZES, SOURCES, WEIGHTS, Source
from holdfast.data import DATASETS
from holdfast.models import MODELS, Classifier
from holdfast.options.spec import Spec
from holdfast.streams import UNITTA_DOMAINS

__all__ = ["Cost", "MissingError", "Need", "check_ready", "cost_of", "missing", "needs_of", "rate_of"]

SUFFIXES = (".safetensors", ".pt", ".pth", ".tar", ".ckpt", ".bin")  # of weights that are files
BYTES_PER_BATCH = 600  # of a row on disk
UPDATE_PASSES = 3  # an update costs about two further forward passes


class MissingError(ValueError):
    """Data, weights or packages of a suite are missing; the message lists each once."""


@dataclass(frozen=True)
class Need:
    """One thing that jobs need: what it is, where it is expected, and where to get it."""

    kind: str  # data, weights, calibration, card or package
    name: str
    location: str  # folder, file or package
    source: Source
    jobs: int = 1  # that need it

    @property
    def is_there(self) -> bool:
        """Whether the folder or file exists, or the package is installed; its content is checked when it is read."""
        return (
            find_spec(self.location) is not None
            if self.kind == "package"
            else Path(self.location).expanduser().exists()
        )

    def __str__(self) -> str:
        parts = (self.source.size, self.source.checksum)
        known = f" ({', '.join(part for part in parts if part)})" if any(parts) else ""
        where = f"install {self.location}" if self.kind == "package" else f"expected at {self.location}"
        return f"{self.kind} {self.name}: {where}; {self.source.address}{known}; needed by {self.jobs} jobs"


@dataclass(frozen=True)
class Cost:
    """What jobs will cost, as far as it is known before the data are there."""

    samples: int  # predictions, epochs included
    passes: int  # forward passes or their equivalent
    unknown: int  # jobs whose length only the data decide
    batches: int

    @property
    def disk_mb(self) -> float:
        """Megabytes of rows."""
        return self.batches * BYTES_PER_BATCH / 1e6


def needs_of(jobs: Sequence[Job]) -> list[Need]:
    """Return everything that jobs need besides this package, each once, with the number of jobs that need it."""
    counted: dict[tuple[str, str], Need] = {}
    for job in jobs:
        for key, need in {(need.kind, need.location): need for need in _needs(job)}.items():
            count = counted[key].jobs + 1 if key in counted else 1
            counted[key] = replace(need, jobs=count)
    return list(counted.values())


def missing(jobs: Sequence[Job]) -> list[Need]:
    """Return what is needed and not there."""
    return [need for need in needs_of(jobs) if not need.is_there]


def check_ready(jobs: Sequence[Job]) -> None:
    """Raise one error that lists everything that is missing, each thing once."""
    absent = missing(jobs)
    if absent:
        listed = "".join(f"\n- {need}" for need in absent)
        raise MissingError(f"{len(absent)} things are missing; nothing was run{listed}")


def cost_of(jobs: Iterable[Job]) -> Cost:
    """Return what jobs will cost."""
    samples = passes = unknown = batches = 0
    for job in jobs:
        length = _length(job)
        if length is None:
            unknown += 1
            continue
        samples += length * job.epochs
        passes += length * job.epochs * (1 if job.recipe.name == "source" else UPDATE_PASSES)
        batches += -(-length // job.batch_size)
    return Cost(samples, passes, unknown, batches)


def rate_of(model: Spec, batch_size: int = 16) -> float | None:
    """Return forward passes per second of a model on this machine; None if it cannot be built here.

    Missing weights do not matter: the same network without them is as fast.
    """
    classifier = _built(model) or _built(Spec(model.name, options={**model.options, "weights": None}))
    if classifier is None:
        return None
    inputs = torch.rand(batch_size, *classifier.input_spec.shape)
    with torch.inference_mode():
        classifier(inputs)
        began = time.perf_counter()
        classifier(inputs)
    return batch_size / (time.perf_counter() - began)


def _built(model: Spec) -> Classifier | None:
    try:
        return Classifier(model.build(MODELS))
    except (ValueError, RuntimeError, OSError, ImportError, TypeError):
        return None


def _needs(job: Job) -> Iterator[Need]:
    yield from _data_needs(job.data)
    for given in (job.source, job.holdout):
        if given is not None and given.data.name != "stream":
            yield from _data_needs(given.data)
    noise = job.stream.options.get("noise")
    for name, folder in (noise if isinstance(noise, Mapping) else {"noise": noise}).items():
        if isinstance(folder, str):
            yield Need("data", Path(folder).name, folder, SOURCES.get(name, Source("see docs/audio.md")))
    calibration = job.stream.options.get("calibration")
    if isinstance(calibration, str):
        file = calibration.replace("{seed}", str(job.seed))
        yield Need("calibration", Path(file).name, file, Source("make it with holdfast calibrate"))
    yield from _model_needs(job.model)
    if job.card is not None:
        yield Need("card", Path(job.card).name, job.card, Source("make it with holdfast card"))


def _data_needs(data: Spec) -> Iterator[Need]:
    name = DATASETS.name_of(DATASETS[data.name])
    for option, key in (("folder", name), ("clean", f"{name} clean"), ("file", name), ("paths", name)):
        for path in _paths(data.options.get(option)):
            source = SOURCES.get(f"{name} {Path(path).name}") or SOURCES.get(key) or Source("see the documentation")
            yield Need("data", Path(path).name, path, source)


def _model_needs(model: Spec) -> Iterator[Need]:
    zoo = model.name.partition(":")[0]
    package = "torchvision" if str(model.options.get("target", "")).startswith("torchvision") else PACKAGES.get(zoo)
    if package:
        yield Need("package", package, package, Source(f"pip install {package}"))
    weights = model.options.get("weights")
    if isinstance(weights, str) and (weights.endswith(SUFFIXES) or "/" in weights):
        name = Path(weights).name
        known = WEIGHTS.get(name) or WEIGHTS.get(zoo) or Source("train it with holdfast train")
        yield Need("weights", f"{model.label} ({name})", weights, known)


def _paths(given: Any) -> list[str]:
    return [] if given is None else [given] if isinstance(given, str) else [str(path) for path in given]


def _length(job: Job) -> int | None:
    """Return the number of samples of a job, or at most that many, if its options or its data set say it."""
    options = job.stream.options
    size = SIZES.get(DATASETS.name_of(DATASETS[job.data.name]))
    lengths = [job.samples, options.get("samples")]
    if options.get("samples_per_stratum") is not None:  # of each class in each domain, until one is used up
        per_domain = options["samples_per_stratum"] * 1000 if job.data.name == "stored_imagenet_c" else size
    else:
        per_domain = options.get("samples_per_domain") or size
    cycles = options.get("cycles", 1)
    if per_domain and cycles:
        domains = options.get("corruptions") or options.get("criteria") or UNITTA_DOMAINS
        lengths.append(len(domains) * len(options.get("severities", [0])) * per_domain * cycles)
    return min((length for length in lengths if length), default=None)
