"""Build what a job runs: its data, network, stream and adapted model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from holdfast.anchor import read_card
from holdfast.benchmark.job import Job, SourceData
from holdfast.benchmark.offline import SchedulesByEpoch
from holdfast.calibration import CalibrationSettings, calibrate
from holdfast.data import DATASETS, Dataset
from holdfast.data.tensors import as_inputs
from holdfast.estimators import ESTIMATORS
from holdfast.model.adapt import adapt_with, estimator_named
from holdfast.model.adapted import AdaptedModel
from holdfast.models import MODELS, with_classes
from holdfast.options.spec import Spec
from holdfast.randomness import seeded_rng
from holdfast.records import InputSpec
from holdfast.streams import STREAMS, Stream

# Arguments that the run passes itself, so that a suite cannot set them.
GIVEN_TO_STREAMS = frozenset({"data", "seed", "calibrate"})
GIVEN_TO_RECIPES = frozenset({"seed"})


@dataclass(frozen=True)
class Built:
    """A job ready to run."""

    stream: Stream
    model: AdaptedModel
    total: int | None  # samples to run; None: endless
    seen: dict[str, str]  # which source data the model was shown, in words, by protocol field


def build(job: Job, stream: Stream | None = None) -> Built:
    """Build the network once, the stream (calibrated for it where the stream needs that) and the adapted model.

    A `stream` that was built for another job with the same one is used instead.
    """
    placement = job.placement
    placement.check()
    # Severities are chosen in float32; only then the network gets the precision and memory format of the run.
    network: nn.Module = job.model.build(MODELS).to(placement.device)
    whole = network
    network = network_for(network, job.data)
    if network is not whole and job.card is not None:
        raise ValueError(
            f"the card of {job.model.label} is for all of its classes, and {job.data.label} has some of them; name the "
            "model class_subset with its indices, and make a card for that"
        )
    if stream is None:
        stream = build_stream(job.stream, job.data, job.seed, network)
    total = min(filter(None, (job.samples, stream.length)), default=None)
    with placement.computing():
        model, seen = _build_model(job, placement.place(network), stream)
    if not job.is_online and total and isinstance(model.method, SchedulesByEpoch):
        start, stop = stream.episodes(total)[0]
        model.method.prepare_offline(batches_per_epoch=-(-(stop - start) // job.batch_size))
    return Built(stream, model, total, seen)


def network_for(network: nn.Module, data: Spec) -> nn.Module:
    """Return the network for the classes of a data set, whose `class_indices` are some of its outputs."""
    indices = getattr(_read_data(data), "class_indices", None)
    return network if indices is None else with_classes(network, indices)


def build_stream(stream: Spec, data: Spec, seed: int, network: nn.Module) -> Stream:
    """Build a stream, calibrated for the network where the stream needs that."""
    given: dict[str, Any] = {"seed": seed}
    if STREAMS[stream.name].needs_model:
        # Severities are chosen for the source network.
        given["calibrate"] = lambda samples, **wanted: calibrate(network, samples, CalibrationSettings(**wanted))
    built: Stream = stream.build(STREAMS, _read_data(data), **given)
    return built


def forget_data() -> None:
    """Read data sets again when they are needed next."""
    _read_data.cache_clear()


@lru_cache(maxsize=2)  # consecutive jobs use the same data, and decoding can take as long as a run
def _read_data(data: Spec) -> Dataset:
    """Return a data set, which no job may write to."""
    dataset: Dataset = data.build(DATASETS)
    return dataset


def _build_model(job: Job, network: nn.Module, stream: Stream) -> tuple[AdaptedModel, dict[str, str]]:
    """Return the adapted model, and in words which source data it has seen, by protocol field."""
    source, holdout, card, seen = None, None, None, {"source_data": "none"}
    follows = _uses_reference(job)
    if follows and job.card is not None:
        card = read_card(job.card)
        seen["source_data"] = f"the card {card.digest[:8]} of {card.reference.samples} inputs"
    if job.resolved.kind.requires_source(job.resolved.options) or (follows and card is None and _own_source(job)):
        source, described = _source_inputs(job, stream)
        seen["source_data"] = described if card is None else f"{described}, {seen['source_data']}"
    if job.holdout is not None:
        holdout, seen["holdout_data"] = _holdout_batches(job.holdout, job, stream)
    model: AdaptedModel = adapt_with(
        job.resolved.seeded(job.seed),
        network,
        estimator={
            estimator.label: estimator_named(estimator.name, **{"seed": job.seed, **estimator.options})
            for estimator in job.estimators
        },
        source=source,
        holdout=holdout,
        card=card,
        example=_example_for(network, stream.input_spec),
        from_stream=not _own_source(job),
    )
    return model, seen


def _uses_reference(job: Job) -> bool:
    """Return whether the method, or an estimator, follows inputs from the moments of the source's own data."""
    asked = {estimator.label: estimator.name for estimator in job.estimators}
    read = {name: name for name in job.resolved.build_recovery().reads}
    used = (ESTIMATORS[name].uses_reference for name in {**read, **asked}.values())
    return job.resolved.kind.uses_reference or any(used)


def _own_source(job: Job) -> bool:
    """Return whether the job has source data, and not the beginning of the stream in their place."""
    return job.source is not None and job.source.spec.name != "stream"


def _example_for(module: nn.Module, given: InputSpec) -> Tensor | None:
    """Return an example input for an audio network that states none; raise if the stated input is not the stream's."""
    stated = (getattr(part, "input_spec", None) for part in module.modules())
    wanted = next((spec for spec in stated if isinstance(spec, InputSpec)), None)
    if wanted is not None and wanted != given:
        raise ValueError(
            f"the model takes {_in_words(wanted)}, but the stream has {_in_words(given)}; choose data, a sample rate "
            "or a length that fits"
        )
    return torch.zeros(1, *given.shape) if given.kind == "audio" and wanted is None else None


def _in_words(spec: InputSpec) -> str:
    return f"{spec.kind} {spec.shape}" + (f" at {spec.sample_rate} Hz" if spec.kind == "audio" else "")


def _source_inputs(job: Job, stream: Stream) -> tuple[Sequence[Tensor], str]:
    """Return batches of unlabelled source inputs, chosen without looking at labels."""
    if job.source is None:
        raise ValueError(f"{job.recipe.name!r} needs unlabelled source inputs; give the job a source")
    if job.source.spec.name == "stream":
        samples = job.source.samples
        return _split(stream.first(samples), job), f"the first {samples} inputs of the stream"
    data, inputs, _ = _drawn(job.source, job.seed, "source inputs")
    return _split(inputs, job), f"{len(inputs)} inputs of {data.name} ({data.digest[:8]})"


def _holdout_batches(holdout: SourceData, job: Job, stream: Stream) -> tuple[Sequence[tuple[Tensor, Tensor]], str]:
    """Return labelled batches of held-out source data, none of which are in the stream."""
    data, inputs, labels = _drawn(holdout, job.seed, "held-out data")
    if data.digest == stream.data.digest:
        raise ValueError(f"the held-out data are those of the stream, {data.name}; hold out others")
    batches = list(zip(_split(inputs, job), _split(labels, job), strict=True))
    return batches, f"{len(inputs)} inputs of {data.name} with labels ({data.digest[:8]})"


def _split(samples: Tensor, job: Job) -> list[Tensor]:
    """Return batches on the device of the job."""
    return [job.placement.lay_out(job.placement.move(part)) for part in samples.split(job.batch_size)]


def _drawn(wanted: SourceData, seed: int, purpose: str) -> tuple[Dataset, Tensor, Tensor]:
    """Return a data set, and randomly drawn inputs of it with their labels."""
    data = _read_data(wanted.spec)
    chosen = np.sort(seeded_rng(seed, purpose).permutation(len(data.labels))[: wanted.samples])
    return data, as_inputs(data.inputs(chosen)), torch.from_numpy(data.labels[chosen])
