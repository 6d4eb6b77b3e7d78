"""Streams on which the default was once worse than the network, or has to be much better."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import holdfast
from holdfast.corruptions import CORRUPTIONS
from holdfast.data import DATASETS
from holdfast.data.tensors import as_inputs
from holdfast.models import digits_resnet, keywords_amaut
from holdfast.streams import continual


def points(network: nn.Module, source: list[Tensor], batches: Iterable[tuple[Tensor, Tensor]]) -> tuple[float, float]:
    """Return the accuracy of the default and of the network itself, in percent."""
    model = holdfast.adapt(network, source=source)
    right = [
        ((model(inputs).argmax(1) == labels), (model.source(inputs).argmax(1) == labels)) for inputs, labels in batches
    ]
    ours, plain = (100 * float(torch.cat(part).double().mean()) for part in zip(*right, strict=True))
    return ours, plain


@pytest.mark.slow
@pytest.mark.parametrize(("gain", "one", "known"), [(2.5, 1, 92.8), (2.5, 4, 94.1), (2.0, 1, 99.4)])
def test_one_class_that_stays_under_over_exposure_costs_nothing(
    gain: float, one: int, known: float, digits: tuple[Tensor, Tensor], source: list[Tensor]
) -> None:
    inputs, labels = digits
    members = (labels == one).nonzero()[:, 0]
    rows = members[torch.arange(320) % len(members)]
    bright = (gain * inputs[rows]).clamp(0, 1)
    ours, plain = points(digits_resnet(), source, zip(bright.split(64), labels[rows].split(64), strict=True))
    assert plain == pytest.approx(known, abs=1.0)
    assert ours >= plain - 0.5


@pytest.mark.slow
def test_one_class_per_batch_of_the_demo_gains_what_it_shows(source: list[Tensor]) -> None:
    stream = continual(
        DATASETS["digits"]("test"),
        corruptions=["gaussian_noise", "impulse_noise", "snow"],
        severity=2,
        family="224",
        samples_per_domain=256,
        order="single_class",
        run=64,
    )
    ours, plain = points(digits_resnet(), source, ((batch.inputs, torch.from_numpy(batch.labels)) for batch in stream))
    assert plain == pytest.approx(71, abs=4)
    assert ours >= plain + 15


@pytest.mark.slow
@pytest.mark.parametrize(
    ("corruption", "severity"), [("pitch_shift", 1), pytest.param("time_stretch", 3, marks=pytest.mark.slow)]
)
def test_keywords_in_runs_of_one_class_cost_nothing(corruption: str, severity: int) -> None:
    data, clean = DATASETS["keywords"]("test"), DATASETS["keywords"]("validation")
    order = np.random.default_rng(0).permutation(len(clean.labels))[:192]
    batches = []
    for label in (0, 8, 16):
        rows = np.flatnonzero(data.labels == label)
        draws = [np.random.default_rng([label, row]) for row in rows]
        clips = as_inputs(CORRUPTIONS[corruption].batch(data.inputs(rows), severity, draws))
        run = clips[torch.randperm(192, generator=torch.Generator().manual_seed(label)) % len(rows)]
        batches += [(batch, torch.full((64,), label)) for batch in run.split(64)]
    ours, plain = points(keywords_amaut(), [as_inputs(clean.inputs(order))], batches)
    assert ours >= plain - 0.5, (ours, plain)
