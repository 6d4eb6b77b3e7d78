"""CoTTA follows the paper: which network predicts, which one trains on which, and when views are used."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from holdfast.methods.cotta import Cotta
from holdfast.model.adapt import adapt
from holdfast.model.adapted import AdaptedModel
from holdfast.models.classifier import Classifier
from holdfast.models.tiny import tiny_resnet, tiny_vit

BATCHES = torch.rand(3, 8, 3, 16, 16, generator=torch.Generator().manual_seed(0))
ALWAYS, NEVER = 2.0, 0.0  # thresholds that no confidence reaches, and that every confidence reaches


def build(**options: object) -> tuple[AdaptedModel, Cotta]:
    settings = {"restore_share": 0.0, "views": 3, "confidence_threshold": NEVER, **options}
    model = adapt(tiny_resnet(), "cotta", **settings)  # type: ignore[arg-type]
    assert isinstance(model.method, Cotta)
    return model, model.method


def flat(weights: list[Tensor]) -> Tensor:
    return torch.cat([weight.detach().flatten() for weight in weights])


def test_the_teacher_predicts_and_follows_the_student() -> None:
    model, method = build(view="identity", confidence_threshold=ALWAYS)
    model(BATCHES[0])
    model(BATCHES[1])
    before = flat(list(method.teacher.written()))
    with torch.no_grad():
        expected = method.teacher.network(BATCHES[2])
    torch.testing.assert_close(model(BATCHES[2]), expected)
    student = flat(method.trained)
    assert not torch.equal(student, before)
    torch.testing.assert_close(flat(list(method.teacher.written())), 0.999 * before + 0.001 * student)


def test_the_teacher_follows_before_weights_are_restored() -> None:
    model, method = build(restore_share=1.0, confidence_threshold=ALWAYS)
    model(BATCHES[0])
    source = flat(method.source_weights())
    assert torch.equal(flat(method.trained), source)
    assert not torch.equal(flat(list(method.teacher.written())), source)


def test_views_are_looked_at_only_where_the_anchor_is_unsure_of_the_batch() -> None:
    unsure, _ = build(confidence_threshold=ALWAYS)
    confident, _ = build(confidence_threshold=NEVER)
    assert unsure.step(BATCHES[0]).forwards == 1 + 3 + 1  # anchor, views, student
    assert confident.step(BATCHES[0]).forwards == 3


def test_the_threshold_is_on_the_mean_confidence_of_the_source_model() -> None:
    source = adapt(tiny_resnet(), "batch_norm")  # the anchor too sees the statistics of the batch
    confidence = float(source(BATCHES[2]).softmax(1).amax(1).mean())
    for offset, forwards in ((1e-5, 5), (-1e-5, 3)):
        model, _ = build(confidence_threshold=confidence + offset, lr=0.5)
        model(BATCHES[0])
        model(BATCHES[1])  # regardless of student and teacher
        assert model.step(BATCHES[2]).forwards == forwards


def test_the_prediction_is_the_mean_of_the_logits_of_the_views() -> None:
    scales = iter([0.5, 1.0, 0.25])
    model, method = build(confidence_threshold=ALWAYS, view=lambda inputs, _: next(scales) * inputs)
    with torch.no_grad():
        expected = sum(method.anchor(scale * BATCHES[0]) for scale in (0.5, 1.0, 0.25)) / 3
    torch.testing.assert_close(model(BATCHES[0]), expected)
    assert model.recipe["options"]["view"] == "custom"


def test_views_differ_from_batch_to_batch_and_from_seed_to_seed() -> None:
    first, second = (build(confidence_threshold=ALWAYS, lr=0.0, seed=seed)[0] for seed in (0, 1))
    prediction = first(BATCHES[0])
    assert not torch.equal(prediction, first(BATCHES[0]))
    assert not torch.equal(prediction, second(BATCHES[0]))


@pytest.mark.parametrize("symmetric", [False, True])
def test_the_student_trains_on_the_prediction(symmetric: bool) -> None:
    model, method = build(confidence_threshold=ALWAYS, symmetric=symmetric)
    with torch.no_grad():
        student = method.model(BATCHES[0])
    step = model.step(BATCHES[0])
    log_student, log_teacher = F.log_softmax(student, 1), F.log_softmax(step.logits, 1)
    expected = -(log_teacher.exp() * log_student).sum(1).mean()
    if symmetric:
        expected = (expected - (log_student.exp() * log_teacher).sum(1).mean()) / 2
    assert step.loss == pytest.approx(float(expected), rel=1e-5)


def test_all_weights_and_biases_are_trained_or_the_affine_ones_only() -> None:
    network = tiny_vit()
    everything = adapt(network, "cotta", example=torch.zeros(1, 3, 32, 32)).method.trained
    names = [name for name, _ in network.named_parameters() if name.rsplit(".", 1)[-1] in ("weight", "bias")]
    assert len(everything) == len(names) < len(list(network.parameters()))  # without class token and positions
    affine = build(trainable="affine")[1].trained
    assert all(weight.dim() == 1 for weight in affine)
    with pytest.raises(ValueError, match="must be 'all' or 'affine'"):
        build(trainable="some")


def test_three_copies_of_the_weights_are_kept_and_no_more() -> None:
    _, method = build()
    assert sum(isinstance(part, Classifier) for part in method.modules()) == 3
    weights = dict(method.named_parameters())
    kept = [*weights.values(), *(origin for name, origin in method.origin.items() if name in weights)]
    kept_bytes = {weight.data_ptr(): weight.nbytes for weight in kept}
    assert sum(kept_bytes.values()) == 3 * sum(weight.nbytes for weight in tiny_resnet().parameters())


def test_the_anchor_and_the_way_back_survive_learning() -> None:
    model, method = build(optimizer="sgd", lr=0.1, confidence_threshold=ALWAYS)
    before = flat(list(tiny_resnet().parameters()))
    for batch in BATCHES:
        model(batch)
    assert torch.equal(flat(list(method.anchor.parameters())), before)
    model.reset()
    assert torch.equal(flat(list(method.model.parameters())), before)


def test_nothing_to_average_is_refused() -> None:
    with pytest.raises(ValueError, match="views of method 'cotta' must be a whole number from 1 to"):
        build(views=0)
