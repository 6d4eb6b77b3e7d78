"""RoTTA follows the paper: a slow teacher predicts, and a student trains on a balanced memory."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from holdfast.blocks.robust_norm import RobustStatistics, learning_pass
from holdfast.methods.rotta import Rotta
from holdfast.model.adapt import adapt
from holdfast.model.adapted import AdaptedModel
from holdfast.models.tiny import tiny_resnet

BATCH = torch.rand(40, 3, 16, 16, generator=torch.Generator().manual_seed(0))


def build(norm: Any = "batch", **options: Any) -> tuple[AdaptedModel, Rotta]:
    model = adapt(tiny_resnet(norm), "rotta", **{"capacity": 8, "every_samples": 8, **options})
    assert isinstance(model.method, Rotta)
    return model, model.method


def first_layers(method: Rotta) -> tuple[RobustStatistics, RobustStatistics]:
    """Return the first layer of student and teacher, whose inputs depend on no trained weight."""
    networks = (method.model, method.teacher.network)
    student, teacher = (next(part for part in net.modules() if isinstance(part, RobustStatistics)) for net in networks)
    return student, teacher


def test_it_learns_at_every_period_inside_a_batch_too() -> None:
    model, _ = build()
    steps = [model.step(batch) for batch in BATCH.split([5, 2, 1, 32])]
    assert [step.loss is None for step in steps] == [True, True, False, False]
    held = len(model.method.memory)  # type: ignore[arg-type]
    assert steps[3].backwards * 32 > 3 * held  # four updates, the first ones on a smaller memory


def test_all_predictions_of_a_batch_come_before_its_updates() -> None:
    model, method = build()
    with torch.no_grad():
        expected = copy.deepcopy(method).predict(BATCH)
        assert torch.equal(model(BATCH), expected)
        assert not torch.equal(method.predict(BATCH), expected)


def test_the_teacher_follows_the_student_slowly() -> None:
    model, method = build(teacher_momentum=0.9)
    before = [weights.clone() for weights in method.teacher.written()]
    model(BATCH[:8])
    for old, new, student in zip(before, method.teacher.written(), method.trained, strict=True):
        assert not torch.equal(old, student)
        torch.testing.assert_close(new, 0.9 * old + 0.1 * student.detach())
    assert build()[1].teacher.momentum == 0.999


def test_the_teachers_statistics_are_of_the_inputs_and_the_students_of_the_views() -> None:
    model, method = build(view=lambda inputs, _: inputs / 2)
    received: dict[str, Tensor] = {}
    student, teacher = first_layers(method)
    for name, layer in (("student", student), ("teacher", teacher)):
        layer.register_forward_pre_hook(lambda _, args, name=name: received.__setitem__(name, args[0].detach()))
    model(BATCH[:8])
    for name, layer in (("student", student), ("teacher", teacher)):
        batch_mean = received[name].mean((0, 2, 3))
        torch.testing.assert_close(layer.mean, 0.95 * layer.source_mean + 0.05 * batch_mean)
    assert not torch.allclose(student.mean, teacher.mean)


def test_the_loss_weighs_each_input_by_its_age() -> None:
    model, method = build(view="identity", lr=0.0, fill_first=True)
    model(BATCH[:8])
    twin = copy.deepcopy(method)
    loss = model.step(BATCH[8:16]).loss
    twin.memory.offer(BATCH[8:16], *(torch.tensor(values) for values in scores(twin, BATCH[8:16])))
    inputs, ages = twin.memory.inputs(), twin.memory.ages()
    assert len(set(ages.tolist())) == len(ages) > 2
    with torch.no_grad(), learning_pass(twin):
        targets, logits = twin.teacher.network(inputs).softmax(1), twin.model(inputs)
    weights = (-ages / 8).exp() / (1 + (-ages / 8).exp())
    expected = (weights * F.cross_entropy(logits, targets, reduction="none")).mean()
    assert loss == pytest.approx(float(expected), rel=1e-4)


def scores(method: Rotta, inputs: Tensor) -> tuple[list[int], list[float]]:
    with torch.no_grad():
        logits = method.predict(inputs)
    return logits.argmax(1).tolist(), torch.distributions.Categorical(logits=logits).entropy().tolist()


def test_its_views_are_drawn_anew_for_each_update_and_the_same_for_the_same_seed() -> None:
    def moved(seed: int) -> Tensor:
        model, method = build(seed=seed)
        model(BATCH)
        return torch.cat([weights.detach() for weights in method.trained])

    assert torch.equal(moved(0), moved(0))
    assert not torch.equal(moved(0), moved(1))


def test_a_view_of_ones_own_is_told_as_such() -> None:
    model, _ = build(view=lambda inputs, _: inputs)
    assert json.loads(json.dumps(model.recipe))["options"]["view"] == "custom"
