"""Checks of data against a network: shape, scale, channel order, labels, accuracy and batch size."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from holdfast.blocks.wrapping import has_batch_norm
from holdfast.data import Dataset
from holdfast.data.tensors import as_inputs
from holdfast.diagnosis.findings import Finding, Status
from holdfast.models.classifier import Classifier
from holdfast.models.input_checks import explain_dtype
from holdfast.models.preprocessing import preprocessing_of
from holdfast.models.probing import untouched
from holdfast.randomness import seeded_rng

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
FEW_SAMPLES = 16  # in a batch, for its statistics
CLEARLY = 0.05  # in accuracy, beyond three standard errors of the difference on the same samples
PERHAPS = 0.02  # beyond two standard errors: worth a look
MORE_CERTAIN = 0.1  # in mean confidence, for networks without statistics or labels
FAR = 0.5  # standard deviations from the source statistics; clean data are within 0.1
MUCH_NEARER = 0.5  # of that distance


@dataclass(frozen=True)
class Fit:
    """How well inputs suit a network: how far they are from its statistics, and how often it is right."""

    distance: float  # of the first normalisation layers from their running statistics; nan without any
    right: Tensor | None  # which predictions are, (samples,); None without labels
    confidence: float
    chance: float  # accuracy of a guess

    @property
    def accuracy(self) -> float:
        """The share of right predictions; nan without labels."""
        return math.nan if self.right is None else float(self.right.mean())


def data_findings(
    model: Classifier, inputs: Tensor, labels: Tensor | None, *, batch_size: int, expected_accuracy: float | None
) -> Iterator[Finding]:
    """Yield what is found on a few batches of clean data; the labels are used for nothing but the report."""
    yield _shape(model, inputs)
    text, _, remedy = (explain_dtype(inputs, model.input_spec, model.input_dtype) or "").partition("; ")
    if not model.input_dtype.is_floating_point:
        if text and model.input_spec.kind == "image":
            yield Finding("input dtype", "fail", text, remedy)
            return
        note = "" if model.input_spec.kind == "image" else ", which have no scale"
        yield Finding("input dtype", "ok", f"{str(inputs.dtype).removeprefix('torch.')}{note}")
        inputs = inputs.to(model.device, model.input_dtype)
        if labels is not None:
            yield from _labels(model, inputs, labels, expected_accuracy)
        yield _batch_size(model, batch_size)
        return
    if text:
        yield Finding("input dtype", "fail", text, remedy)
        inputs = inputs.float()
    if not torch.isfinite(inputs).all():
        yield Finding("input values", "fail", "non-finite values", "leave out or repair these samples")
        return
    inputs = inputs.to(model.device, model.dtype)
    yield from scale_findings(model, inputs, labels)
    if labels is not None:
        yield from _labels(model, inputs, labels, expected_accuracy)
    yield _batch_size(model, batch_size)


def scale_findings(model: Classifier, inputs: Tensor, labels: Tensor | None) -> Iterator[Finding]:
    """Compare inputs as they are with other scales and channel orders, and yield the one that fits better, if any."""
    low, high = (float(value) for value in inputs.aminmax())
    text = f"values from {low:.3g} to {high:.3g}"
    others = _alternatives(model, inputs)
    given = _fit(model, inputs, labels)
    fits = {name: _fit(model, change(inputs), labels) for name, (change, _) in others.items()}
    sure, perhaps = (
        [name for name, fit in fits.items() if rule(fit, given)] for rule in (_fits_better, _may_fit_better)
    )
    beyond = model.input_spec.kind == "image" and (high > 10 or low < -10)
    if sure or perhaps:
        order = {name: (-fits[name].accuracy, fits[name].distance, -fits[name].confidence) for name in sure or perhaps}
        name = min(order, key=lambda name: [math.inf if math.isnan(part) else part for part in order[name]])
        status: Status = "fail" if sure or beyond else "warn"
        yield Finding("input scale", status, f"{text}; {name} {_compared(fits[name], given)}", others[name][1])
    elif beyond:
        yield Finding("input scale", "fail", text, "bring images to the scale of training, e.g. inputs / 255")
    else:
        yield Finding("input scale", "ok", text)


def _alternatives(model: Classifier, inputs: Tensor) -> Mapping[str, tuple[Callable[[Tensor], Tensor], str]]:
    """Return what may have been forgotten or done twice, with its remedy."""
    if model.input_spec.kind != "image":
        return {"divided by 32768": (lambda x: x / 32768, "pass waveforms in [-1, 1]: divide 16-bit samples by 32768")}
    alternatives: dict[str, tuple[Callable[[Tensor], Tensor], str]] = {
        "divided by 255": (lambda x: x / 255, "divide pixels by 255: the network takes [0, 1]"),
        "multiplied by 255": (lambda x: x * 255, "the network takes pixels in [0, 255]: multiply by 255"),
    }
    if inputs.shape[1] != 3:
        return alternatives
    mean, std = (inputs.new_tensor(values).view(-1, 1, 1) for values in (MEAN, STD))
    once = "normalise once: load the network with holdfast.models.load, or wrap it in holdfast.models.Normalised"
    halves = f"the network takes [-1, 1]: use mean and std of 0.5, and {once}"
    return alternatives | {
        "scaled to [-1, 1]": (lambda x: 2 * x - 1, halves),
        "scaled from 0..255 to [-1, 1]": (lambda x: x / 127.5 - 1, "the network takes [-1, 1]: inputs / 127.5 - 1"),
        "scaled from [-1, 1] to [0, 1]": (lambda x: x / 2 + 0.5, "the network takes [0, 1]: inputs / 2 + 0.5"),
        "normalised by ImageNet's mean and std": (lambda x: (x - mean) / std, once),
        "without ImageNet's mean and std": (lambda x: x * std + mean, f"they were applied twice; {once}"),
        "with channels reversed": (lambda x: x.flip(1), "swap the channels, BGR and RGB: inputs.flip(1)"),
        "divided by 255 and normalised": (lambda x: (x / 255 - mean) / std, f"divide by 255, and {once}"),
    }


def _fits_better(other: Fit, given: Fit) -> bool:
    """Return whether other inputs fit better beyond doubt: by labels, or by the statistics of the network."""
    if given.right is not None and other.right is not None:
        return _exceeds(other.right - given.right, 3.0, CLEARLY) and _exceeds(other.right - other.chance, 3.0, CLEARLY)
    return given.distance > FAR and other.distance < MUCH_NEARER * given.distance


def _may_fit_better(other: Fit, given: Fit) -> bool:
    """Return whether other inputs seem to fit better: by labels, or for want of statistics by confidence."""
    if given.right is not None and other.right is not None:
        return _exceeds(other.right - given.right, 2.0, PERHAPS) and _exceeds(other.right - other.chance, 2.0, PERHAPS)
    return math.isnan(given.distance) and other.confidence > given.confidence + MORE_CERTAIN


def _exceeds(gains: Tensor, errors: float, least: float) -> bool:
    """Return whether a mean gain is over so many of its standard errors; at least one sample counts as changed."""
    deviation = math.sqrt(max(float(gains.var(correction=0)), 1 / len(gains)) / len(gains))
    return float(gains.mean()) > max(errors * deviation, least)


def _compared(other: Fit, given: Fit) -> str:
    if given.right is not None:
        return f"the accuracy would be {100 * other.accuracy:.0f} % instead of {100 * given.accuracy:.0f} %"
    if not math.isnan(given.distance):
        return (
            f"they are nearer to the source statistics, {other.distance:.1f} instead of {given.distance:.1f} deviations"
        )
    return f"the mean confidence would be {100 * other.confidence:.0f} % instead of {100 * given.confidence:.0f} %"


def _fit(model: Classifier, inputs: Tensor, labels: Tensor | None) -> Fit:
    distances: list[float] = []

    def note(layer: nn.Module, args: tuple[Tensor, ...]) -> None:
        mean, var = (getattr(layer, name) for name in ("running_mean", "running_var"))
        features = args[0].movedim(1, 0).flatten(1)
        smallest = 1e-6 * var.mean() + torch.finfo(var.dtype).tiny  # of channels that are always 0
        shift = (features.mean(1) - mean) / (var + smallest).sqrt()
        spread = ((features.var(1) + smallest) / (var + smallest)).log()
        distances.append(float((shift.square() + spread.square() / 4).mean().sqrt()))

    with_statistics = [part for part in model.module.modules() if isinstance(part._buffers.get("running_mean"), Tensor)]
    with ExitStack() as hooks, untouched(model.module):
        for part in with_statistics[:3]:
            hooks.enter_context(part.register_forward_pre_hook(note))
        logits = model.read(model.module(inputs), len(inputs))
    right = None if labels is None else (logits.argmax(1).cpu() == labels.cpu()).double()
    confidence = float(logits.softmax(1).amax(1).mean())
    distance = sum(distances) / len(distances) if distances else math.nan
    return Fit(distance, right, confidence, 1 / logits.shape[1])


def _shape(model: Classifier, inputs: Tensor) -> Finding:
    shape, prepared = tuple(inputs.shape[1:]), preprocessing_of(model.module)
    text = "×".join(map(str, shape))
    if prepared is not None and prepared.crop is not None and shape[1:] != prepared.crop:
        size = "×".join(map(str, prepared.crop))
        remedy = f"resize the shorter side to {prepared.resize} and crop {size}, {prepared.interpolation}"
        return Finding("input shape", "warn", f"{text}, and the network was trained for {size}", remedy)
    return Finding("input shape", "ok", text)


def _labels(model: Classifier, inputs: Tensor, labels: Tensor, expected_accuracy: float | None) -> Iterator[Finding]:
    low, high = int(labels.min()), int(labels.max())
    text = f"labels {low} to {high} for {model.num_classes} classes"
    if low < 0 or high >= model.num_classes:
        remedy = "count labels from 0 in the order of the network's outputs"
        yield Finding("labels", "fail", text, remedy)
        return
    yield Finding("labels", "ok", text)
    fit, samples, chance = _fit(model, inputs, labels), len(labels), 1 / model.num_classes
    error = math.sqrt(max(fit.accuracy * (1 - fit.accuracy), 1 / samples) / samples)
    text = f"{100 * fit.accuracy:.1f} % ± {196 * error:.1f} on {samples} samples"
    shifted = _fit(model, inputs, labels - 1)
    if shifted.accuracy > fit.accuracy + max(3 * error, CLEARLY):
        yield Finding("clean accuracy", "fail", f"{text}; labels less 1 fit better", "count labels from 0: labels - 1")
    elif fit.accuracy < chance + 3 * math.sqrt(chance * (1 - chance) / samples):
        remedy = "check the order of the classes and the preprocessing: the network predicts by chance"
        yield Finding("clean accuracy", "fail", f"{text}, chance is {100 * chance:.1f} %", remedy)
    elif expected_accuracy is not None and fit.accuracy + 3 * error < expected_accuracy:
        remedy = "compare the preprocessing with that of training, step by step"
        yield Finding("clean accuracy", "fail", f"{text}, expected {100 * expected_accuracy:.1f} %", remedy)
    else:
        yield Finding("clean accuracy", "ok", text)


def _batch_size(model: Classifier, batch_size: int) -> Finding:
    if not has_batch_norm(model.module) or batch_size >= FEW_SAMPLES:
        return Finding("batch size", "ok", str(batch_size))
    remedy = "choose stored or blended statistics: 'robust_bn', 'rotta', or 'batch_norm' with prior_samples=16"
    text = f"{batch_size}, too few samples for the statistics of a batch"
    return Finding("batch size", "fail" if batch_size == 1 else "warn", text, remedy)


def labelled_batches(data: Dataset, batch_size: int, samples: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield inputs as the streams make them, and labels, of samples drawn without repetition."""
    order = seeded_rng(0, "doctor").permutation(len(data.labels))[:samples].astype(np.int64)
    for start in range(0, len(order), batch_size):
        chosen = order[start : start + batch_size]
        yield as_inputs(data.inputs(chosen)), torch.from_numpy(np.asarray(data.labels)[chosen])
