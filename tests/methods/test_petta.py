"""PeTTA senses divergence by class, and its source stays as it is unless asked to move as in the official code."""

from __future__ import annotations

import pytest
import torch

from holdfast.blocks.robust_norm import RobustStatistics
from holdfast.methods.petta import Petta
from holdfast.model.adapt import adapt
from holdfast.models.tiny import tiny_resnet

BATCHES = torch.rand(3, 8, 3, 16, 16, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("moving", [False, True])
def test_only_on_request_the_statistics_of_the_source_move(moving: bool) -> None:
    model = adapt(tiny_resnet(), "petta", source=[BATCHES[0]], moving_source=moving)
    method = model.method
    assert isinstance(method, Petta)
    for batch in BATCHES:
        model(batch)
    layers = [part for part in method.anchor.modules() if isinstance(part, RobustStatistics)]
    assert all(torch.equal(layer.mean, layer.source_mean) != moving for layer in layers)


def test_divergence_grows_with_the_distance_of_class_means_and_slows_the_teacher() -> None:
    method = adapt(tiny_resnet(), "petta", source=list(BATCHES)).method
    assert isinstance(method, Petta)
    assert method.source_means is not None
    divergences = []
    for shift in (0.0, 1e-3, 3e-3):
        method.class_means = method.source_means + shift
        before = [weight.clone() for weight in method.teacher.written()]
        method.adapt(BATCHES[0])
        divergences.append(method.divergence)
        for old, new, student in zip(before, method.teacher.written(), method.trained, strict=True):
            torch.testing.assert_close(new, old.lerp(student, (1 - method.divergence) * 1e-3))
    assert divergences[0] == 0
    assert divergences[0] < divergences[1] < divergences[2] <= 1


def test_a_class_with_a_single_source_input_does_not_count() -> None:
    method = adapt(tiny_resnet(), "petta", source=[BATCHES[0][:1]]).method
    assert isinstance(method, Petta)
    assert method.source_means is not None
    method.class_means = method.source_means + 1.0
    method.adapt(BATCHES[0][:1])
    assert method.divergence == 0
