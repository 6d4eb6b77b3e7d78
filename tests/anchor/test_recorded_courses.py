"""Predictions, estimates, gauges and events along fixed streams are those that were recorded, step by step.

The streams hold what an anchor must cope with: noise, batches of one class and of one sample, other brightness, and
inputs that show nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import holdfast
from holdfast.data import DATASETS
from holdfast.data.tensors import as_inputs
from holdfast.model.adapted import AdaptedModel
from holdfast.models import MODELS
from holdfast.records import Step

Check = Callable[[object], None]


def waves(shape: torch.Size, step: float) -> Tensor:
    """Noise between −1 and 1 that no version of a library changes."""
    count = math.prod(shape)
    return (torch.arange(1, count + 1, dtype=torch.float64).mul(step).sin() * 43758.5453).frac().float().reshape(shape)


@pytest.fixture(scope="module")
def digits() -> tuple[Tensor, Tensor]:
    data = DATASETS["digits"]("test")
    return as_inputs(data.inputs(np.arange(len(data.labels)))), torch.from_numpy(data.labels)


@pytest.fixture(scope="module")
def source() -> tuple[Tensor, Tensor]:
    data = DATASETS["digits"]("validation")
    return as_inputs(data.inputs(np.arange(96))), torch.from_numpy(data.labels[:96])


def stream(digits: tuple[Tensor, Tensor]) -> Iterator[Tensor]:
    """Yield the batches."""
    inputs, labels = digits
    yield inputs[:16]
    for start in (16, 32, 48):
        part = inputs[start : start + 16]
        yield (part + 0.4 * waves(part.shape, 0.37 + start)).clamp(0, 1)
    threes = inputs[labels == 3]
    yield threes[:12]
    yield threes[12:24]
    for index in (100, 101, 102):
        yield inputs[index : index + 1]
    yield 0.5 + 0.5 * inputs[110:126]
    yield torch.zeros(4, *inputs.shape[1:])
    part = inputs[130:150]
    yield (part + 0.8 * waves(part.shape, 1.91)).clamp(0, 1)


def told(step: Step) -> dict[str, Any]:
    """Return what a step says, as JSON holds it."""
    probabilities = step.logits.softmax(1)
    made: dict[str, Any] = {
        "classes": step.logits.argmax(1).tolist(),
        "confidence": probabilities.amax(1).mean().item(),
        "entropy": torch.special.entr(probabilities).sum(1).mean().item(),
        "loss": step.loss,
        "gauges": {name: float(value) for name, value in step.gauges.items()},
        "events": [[type(event).__name__, str(asdict(event).get("reason", ""))] for event in step.events],
        "passes": [step.forwards, step.backwards],
    }
    for name, estimate in step.estimates.items():
        known = [getattr(estimate, part) for part in ("value", "low", "high", "gain")]
        made[name] = [None if value is None or math.isnan(value) else float(value) for value in known]
        made[f"{name} unknown"] = estimate.unknown
    if step.verdict is not None:
        made["verdict"] = [
            step.verdict.right.mean().item(),
            step.verdict.source_right.mean().item(),
            step.verdict.shift,
        ]
    return made


def course(model: AdaptedModel, digits: tuple[Tensor, Tensor]) -> list[dict[str, Any]]:
    made = [told(model.step(batch)) for batch in stream(digits)]
    model.reset()
    return [*made, told(model.step(digits[0][:16]))]


@pytest.mark.parametrize(
    ("network", "method"),
    [
        ("digits_resnet", "blend"),
        ("digits_resnet", "tent"),
        ("digits_resnet", "unitta_auto"),
        ("digits_vit", "blend"),
        ("digits_vit", "tent"),
    ],
)
def test_adapted_with_an_estimate(
    recorded: Check, network: str, method: str, digits: tuple[Tensor, Tensor], source: tuple[Tensor, Tensor]
) -> None:
    model = holdfast.adapt(
        MODELS[network](), method, estimator="anchored", source=list(source[0].split(32)), clean_accuracy=0.97
    )
    recorded(course(model, digits))


def test_adapted_without_source_data(recorded: Check, digits: tuple[Tensor, Tensor]) -> None:
    recorded(course(holdfast.adapt(MODELS["digits_resnet"](), "blend", estimator="anchored"), digits))


@pytest.mark.parametrize(("method", "rate"), [("tent", 1e-3), ("tent", 0.05), ("eta", 1e-2)])
def test_guarded(
    recorded: Check, method: str, rate: float, digits: tuple[Tensor, Tensor], source: tuple[Tensor, Tensor]
) -> None:
    holdout = [(source[0], source[1])]
    model = holdfast.guard(
        MODELS["digits_resnet"](), method, options={"lr": rate}, budget=0.3, source=[source[0]], holdout=holdout
    )
    made, labels = [], digits[1]
    for batch in stream(digits):
        step = model.step(batch)
        for sample, wanted in zip(step.ids, step.wants_label, strict=True):
            if wanted:
                model.feedback(sample, int(labels[sample % len(labels)]))
        bounds = [model.accuracy(), model.gain()]
        made.append({**told(step), "bounds": [[bound.low, bound.value, bound.high] for bound in bounds]})
    recorded(made)
