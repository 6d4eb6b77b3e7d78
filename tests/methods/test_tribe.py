"""TRIBE: student and teacher share weights but not statistics, and the anchor does not change."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from holdfast.blocks.losses import entropy
from holdfast.blocks.wrapping import affine_parameters
from holdfast.methods.tribe import Tribe
from holdfast.model.adapt import adapt
from holdfast.model.adapted import AdaptedModel
from holdfast.models.tiny import tiny_resnet


@pytest.fixture
def inputs() -> Tensor:
    return torch.rand(16, 3, 16, 16, generator=torch.Generator().manual_seed(0))


def build(**options: object) -> tuple[AdaptedModel, Tribe]:
    model = adapt(tiny_resnet(), "tribe", **{"entropy_margin": 1.0, **options})
    assert isinstance(model.method, Tribe)
    return model, model.method


def test_student_and_teacher_share_weights_and_nothing_is_copied_but_the_anchors_affine_ones(inputs: Tensor) -> None:
    model, method = build()
    for mine, shared in zip(method.model.parameters(), method.student.parameters(), strict=True):
        assert mine is shared
    size = sum(weights.numel() for weights in tiny_resnet().parameters())
    affine = sum(weights.numel() for weights in affine_parameters(tiny_resnet()))
    assert sum(weights.numel() for weights in method.parameters()) == size + affine
    before = [weights.clone() for weights in method.anchor.parameters()]
    model(inputs)
    assert all(torch.equal(old, new) for old, new in zip(before, method.anchor.parameters(), strict=True))
    teacher, student, anchor = (
        torch.cat([layer.mean for layer in network.modules() if hasattr(layer, "class_mean")])
        for network in (method.model, method.student, method.anchor)
    )
    assert torch.equal(teacher, anchor)  # for the same inputs, before the first step
    assert not torch.equal(teacher, student)  # the student's inputs were augmented


def test_the_first_loss_is_the_cross_entropy_to_the_own_confident_labels(inputs: Tensor) -> None:
    model, _ = build(view="identity")
    step = model.step(inputs)
    reference, _ = build(view="identity", lr=0.0)
    reference(inputs)
    logits = reference.method.predict(
        inputs
    )  # equal for teacher, student and anchor, after the statistics were updated
    middle = float(entropy(logits).median() / torch.tensor(10.0).log())
    assert step.loss == pytest.approx(float(F.cross_entropy(logits, logits.argmax(1))), rel=1e-4)
    sure = logits[entropy(logits) < middle * torch.tensor(10.0).log()]
    assert 0 < len(sure) < len(logits)
    half, _ = build(view="identity", entropy_margin=middle)
    assert half.step(inputs).loss == pytest.approx(float(F.cross_entropy(sure, sure.argmax(1))), rel=1e-4)


def test_it_costs_four_passes_forward_and_two_back(inputs: Tensor) -> None:
    step = build()[0].step(inputs)
    assert (step.forwards, step.backwards) == (4.0, 2.0)


def test_without_a_confident_label_only_the_statistics_move(inputs: Tensor) -> None:
    model, method = build(entropy_margin=0.0)
    before = [weights.detach().clone() for weights in method.trained]
    first = model.step(inputs)
    assert first.loss is None
    assert first.backwards == 0
    assert all(torch.equal(old, new) for old, new in zip(before, method.trained, strict=True))
    assert not torch.equal(model(inputs), first.logits)


def test_the_anchor_holds_the_teacher_back(inputs: Tensor) -> None:
    def drift(anchor_weight: float) -> float:
        model, method = build(anchor_weight=anchor_weight, optimizer="sgd", lr=0.2, momentum=0.0, view="identity")
        for _ in range(10):
            model(inputs)
        return float((method.predict(inputs) - method.anchor(inputs)).norm())

    assert drift(10.0) < 0.5 * drift(0.0)


def test_a_view_of_ones_own_is_called_custom(inputs: Tensor) -> None:
    model, _ = build(view=lambda inputs, _: inputs.flip(-1))
    model(inputs)
    assert model.recipe["options"]["view"] == "custom"


@pytest.mark.parametrize(
    ("preset", "published"),
    [
        ("cifar10-c", (1e-3, 0.01, 0.0, 0.05)),
        ("cifar100-c", (1e-3, 0.05, 0.1, 0.2)),
        ("imagenet-c", (5e-4, 0.5, 0.5, 0.4)),
    ],
)
def test_the_presets_are_the_published_settings(preset: str, published: tuple[float, ...]) -> None:
    method = adapt(tiny_resnet(), "tribe", preset=preset).method
    assert isinstance(method, Tribe)
    assert (method.optimizer, method.betas, method.weight_decay, method.anchor_weight) == ("adam", (0.9, 0.999), 0, 0.5)
    assert (method.lr, method.class_momentum, method.agnostic_share, method.entropy_margin) == published
