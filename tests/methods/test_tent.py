"""TENT lowers the entropy and trains affine parameters only."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from holdfast.blocks.losses import entropy
from holdfast.model.adapt import adapt
from holdfast.models.tiny import tiny_resnet


def test_entropy_falls_on_the_batch_it_learns_from() -> None:
    inputs = torch.rand(32, 3, 16, 16, generator=torch.Generator().manual_seed(0))
    model = adapt(tiny_resnet(), "tent", lr=1e-2)
    before = float(entropy(model(inputs)).mean())
    for _ in range(30):
        model(inputs)
    assert float(entropy(model(inputs)).mean()) < 0.9 * before


@pytest.mark.parametrize("norm", ["batch", "group", "layer"])
def test_only_affine_parameters_of_normalisation_layers_move(norm: str) -> None:
    inputs = torch.rand(8, 3, 16, 16, generator=torch.Generator().manual_seed(0))
    network = tiny_resnet(norm)
    model = adapt(network, "tent", lr=1e-2)
    model(inputs)
    affine = {
        f"{name}.{kind}"
        for name, part in network.named_modules()
        if isinstance(part, (nn.BatchNorm2d, nn.GroupNorm, nn.LayerNorm))
        for kind in ("weight", "bias")
    }
    source, adapted = dict(network.named_parameters()), dict(model.method.model.module.named_parameters())
    moved = {name for name in source if not torch.equal(source[name], adapted[name])}
    assert moved
    assert moved <= affine


def test_more_steps_predict_after_an_update() -> None:
    inputs = torch.rand(8, 3, 16, 16, generator=torch.Generator().manual_seed(0))
    model = adapt(tiny_resnet(), "tent", steps=2, lr=0.1)
    step = model.step(inputs)
    assert model.method.predicts == "after"
    assert (step.forwards, step.backwards) == (2.0, 2.0)
    assert not torch.equal(step.logits, adapt(tiny_resnet(), "batch_norm")(inputs))


def test_a_model_without_normalisation_is_refused_with_an_alternative() -> None:
    with pytest.raises(ValueError, match="'source'"):
        adapt(nn.Sequential(nn.Flatten(), nn.Linear(12, 4)), "tent", example=torch.zeros(2, 12))
