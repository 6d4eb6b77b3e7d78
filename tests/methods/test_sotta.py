"""SoTTA follows the paper: confident inputs only, flat minima, and top layers that are not trained."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn

from holdfast.blocks.robust_norm import RunningStatistics, learning_pass
from holdfast.methods.sotta import Sotta
from holdfast.model.adapt import adapt
from holdfast.model.adapted import AdaptedModel
from holdfast.models.tiny import tiny_resnet

BATCH = torch.rand(32, 3, 16, 16, generator=torch.Generator().manual_seed(0))


def build(network: nn.Module | None = None, **options: Any) -> tuple[AdaptedModel, Sotta]:
    options = {"capacity": 8, "every_samples": 8, "min_confidence": 0.0, **options}
    model = adapt(network or tiny_resnet(), "sotta", **options)
    assert isinstance(model.method, Sotta)
    return model, model.method


def test_what_it_is_unsure_of_is_neither_held_nor_learnt() -> None:
    model, method = build(min_confidence=0.9)
    before = [weights.detach().clone() for weights in method.trained]
    step = model.step(BATCH)
    assert len(method.memory) == 0
    assert (step.loss, step.backwards, step.forwards) == (None, 0, 1)
    assert all(torch.equal(old, new) for old, new in zip(before, method.trained, strict=True))


def test_a_confidence_at_the_threshold_is_enough() -> None:
    _, method = build()
    with torch.no_grad():
        confidence = method.predict(BATCH[:8]).softmax(1).amax(1)
    threshold = float(confidence.sort().values[4])
    model, method = build(min_confidence=threshold)
    model(BATCH[:8])
    assert len(method.memory) == 4


def test_both_passes_of_an_update_move_the_statistics() -> None:
    model, method = build()
    layer = next(part for part in method.model.modules() if isinstance(part, RunningStatistics))
    received: list[Tensor] = []
    layer.register_forward_pre_hook(lambda _, args: received.append(args[0].detach()))
    model(BATCH[:8])
    held = received[-1]  # no trained weight precedes the first layer: both passes bring it the same
    assert len(received) == 3
    torch.testing.assert_close(layer.mean, 0.64 * layer.source_mean + 0.36 * held.mean((0, 2, 3)))
    torch.testing.assert_close(layer.var, 0.64 * layer.source_var + 0.36 * held.var((0, 2, 3)))


def test_the_step_is_taken_with_the_gradient_from_the_worst_place_nearby() -> None:
    options = {"optimizer": "sgd", "lr": 0.1, "momentum": 0.0, "statistics_momentum": 0.0, "radius": 0.5}
    model, method = build(**options)
    twin = copy.deepcopy(method)
    model(BATCH[:8])

    def gradients() -> list[Tensor]:
        with learning_pass(twin.model):
            probs = twin.model(method.memory.inputs()).softmax(1)
        return list(torch.autograd.grad(-(probs * (probs + 1e-6).log()).sum(1).mean(), twin.trained))

    source = [weights.detach().clone() for weights in twin.trained]
    here = gradients()
    norm = torch.cat([gradient.flatten() for gradient in here]).norm()
    with torch.no_grad():
        for weights, gradient in zip(twin.trained, here, strict=True):
            weights += 0.5 * gradient / norm
    there = gradients()
    for old, gradient, new in zip(source, there, method.trained, strict=True):
        torch.testing.assert_close(new.detach(), old - 0.1 * gradient, rtol=1e-4, atol=1e-6)
    assert not all(torch.allclose(one, other) for one, other in zip(here, there, strict=True))


class Four(nn.Module):
    """Four layers, named as in a ResNet."""

    def __init__(self) -> None:
        super().__init__()
        for stage in range(1, 5):
            channels = 3 if stage == 1 else 6
            setattr(self, f"layer{stage}", nn.Sequential(nn.Conv2d(channels, 6, 3, padding=1), nn.BatchNorm2d(6)))
        self.fc = nn.Linear(6, 4)

    def forward(self, inputs: Tensor) -> Tensor:
        for stage in (self.layer1, self.layer2, self.layer3, self.layer4):
            inputs = torch.relu(stage(inputs))
        logits: Tensor = self.fc(inputs.mean((2, 3)))
        return logits


def test_the_top_is_not_trained_but_keeps_statistics() -> None:
    model, method = build(Four().eval())
    parts = dict(method.model.module.named_modules())
    top = parts["layer4.1"]
    assert isinstance(top, RunningStatistics)
    assert len(method.trained) == 6
    assert not top.weight.requires_grad
    model(BATCH)
    assert not torch.equal(top.mean, top.source_mean)
    assert len(build(Four().eval(), frozen_layers=None)[1].trained) == 8


def test_predictions_come_from_running_statistics_before_the_update() -> None:
    model, method = build()
    with torch.no_grad():
        expected = tiny_resnet()(BATCH)
    torch.testing.assert_close(model(BATCH), expected)
    assert not torch.allclose(method.predict(BATCH), expected)
