"""What a suite needs before it can run: data, weights, calibrations and packages, each once, and what it will cost."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch

from holdfast.benchmark.job import Job
from holdfast.data import DATASETS
from holdfast.model.adapt import estimator_named
from holdfast.models import MODELS, Classifier
from holdfast.options.needs import Need, needs_in
from holdfast.options.sources import SOURCES
from holdfast.options.spec import Spec
from holdfast.registry import options_of
from holdfast.streams import UNITTA_DOMAINS

BYTES_PER_BATCH = 600  # of a row on disk
LARGE = 50_000  # numbers of an input, above which fewer are timed together
FORWARD, BACKWARD = re.compile(r"(\d+) (?:more )?forwards?"), re.compile(r"(\d+) backward")
CASES = re.compile(r"\b(where|if|with|to predict)\b")  # of words that describe passes


class MissingError(ValueError):
    """Data, weights or packages of a suite are missing; the message lists each once."""


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
    return needs_in(job.to_json() for job in jobs)


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
    """Return what jobs will cost, by the passes that methods and estimators declare."""
    samples = passes = unknown = batches = 0
    for job in jobs:
        length = _length(job)
        if length is None:
            unknown += 1
            continue
        samples += length * job.epochs
        passes += round(length * job.epochs * passes_of(job))
        batches += -(-length // job.batch_size)
    return Cost(samples, passes, unknown, batches)


def passes_of(job: Job) -> float:
    """Return the forward passes of a job for each sample, a backward pass counted as two."""
    own = declared_passes(job.resolved.kind.passes)
    usual = options_of(job.resolved.kind).get("views")
    if usual is not None and "views" in job.recipe.options:  # the declared passes have the default number
        own += job.recipe.options["views"] - usual.default
    asked = (*job.estimators, *(Spec(name) for name in job.resolved.build_recovery().reads))
    shared: dict[str, float] = {}
    for estimator in {entry.label: entry for entry in asked}.values():
        built = estimator_named(estimator.name, **estimator.options)
        shared[built.shares] = max(shared.get(built.shares, 0.0), built.passes(job.batch_size))
    return own + sum(shared.values())


def declared_passes(text: str) -> float:
    """Return the forward passes that a method declares in words, a backward pass counted as two.

    Parts that begin another case ("3 forward where the source is confident") are left out.

    >>> declared_passes("34 forward, 1 backward; 3 forward where the source is confident")
    36.0
    >>> declared_passes("3 forward, 1 backward through two of them")
    7.0
    """
    total = 0.0
    for part in text.split(";"):
        if CASES.search(part):
            continue
        total += sum(int(number) for number in FORWARD.findall(part))
        through = 2 if re.search("through (both|two of them)", part) else 1
        total += 2 * through * sum(int(number) for number in BACKWARD.findall(part))
    return total


def rate_of(model: Spec) -> float | None:
    """Return forward passes per second of a model on this machine; None if it cannot be built here.

    Missing weights do not matter: the same network without them is as fast.
    """
    classifier = _built(model) or _built(Spec(model.name, options={**model.options, "weights": None}))
    if classifier is None:
        return None
    shape = classifier.input_spec.shape
    inputs = torch.rand(4 if math.prod(shape) > LARGE else 16, *shape)
    with torch.inference_mode():
        classifier(inputs)
        began = time.perf_counter()
        classifier(inputs)
    return len(inputs) / (time.perf_counter() - began)


def _built(model: Spec) -> Classifier | None:
    try:
        return Classifier(model.build(MODELS))
    except (ValueError, RuntimeError, OSError, ImportError, TypeError):
        return None


def _length(job: Job) -> int | None:
    """Return the number of samples of a job, or at most that many, if its options or its data set say it."""
    options = job.stream.options
    known = SOURCES.get(DATASETS.name_of(DATASETS[job.data.name]))
    size = None if known is None else known.samples
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
