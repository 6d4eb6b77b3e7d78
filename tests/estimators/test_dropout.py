"""Dropout by hooks: its points, exact partial passes, many masks in one pass, and its rate."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from holdfast.data import DATASETS
from holdfast.estimators import Observation
from holdfast.estimators._dropout import Dropout, Points, find_points, predict_again
from holdfast.estimators.aetta import Aetta
from holdfast.estimators.pdd import Pdd
from holdfast.model.adapt import adapt
from holdfast.models import Classifier, digits_resnet, tiny_resnet, tiny_vit
from holdfast.models.partial_forward import recording
from holdfast.models.vit import ViT
from holdfast.records import Estimate

INPUTS = torch.rand(6, 3, 16, 16, generator=torch.Generator().manual_seed(0))


def generators(masks: int) -> list[torch.Generator]:
    return [torch.Generator().manual_seed(mask) for mask in range(masks)]


def networks() -> dict[str, Classifier]:
    """Networks as methods prepare them: with and without batch statistics."""
    plain = {"batch": tiny_resnet(), "group": tiny_resnet("group"), "tokens": tiny_vit(size=16)}
    return {name: adapt(network, "tent", example=INPUTS).method.predictor for name, network in plain.items()}


@pytest.mark.parametrize("kind", ["batch", "group", "tokens"])
def test_partial_passes_predict_the_same_as_whole_ones_to_the_bit(kind: str) -> None:
    model = networks()[kind]
    points = Dropout(points="stages", rate=0.4, masks=2).points_in(model)
    assert points.finished
    with torch.no_grad(), recording(model, INPUTS, points.finished) as recorded:
        model(INPUTS)
    with torch.no_grad():
        whole, from_record = (
            predict_again(model, INPUTS, outputs, points, 0.4, generators(1)) for outputs in ({}, recorded.outputs)
        )
    assert torch.equal(whole, from_record)


@pytest.mark.parametrize("kind", ["batch", "group", "tokens"])
def test_all_masks_in_one_pass_are_those_of_many_passes(kind: str) -> None:
    model = networks()[kind]
    points = Dropout(points="stages", rate=0.4, masks=3).points_in(model)
    with torch.no_grad(), recording(model, INPUTS, points.finished) as recorded:
        model(INPUTS)
        together = predict_again(model, INPUTS, recorded.outputs, points, 0.4, generators(3))
        apart = [predict_again(model, INPUTS, recorded.outputs, points, 0.4, [one]) for one in generators(3)]
    torch.testing.assert_close(together, torch.cat(apart), atol=1e-5, rtol=1e-5)
    assert not torch.equal(together[0], together[1])


def test_no_mask_comes_again_in_the_next_batch() -> None:
    model = networks()["group"]
    dropout = Dropout(points="features", rate=0.5, masks=2)
    with torch.no_grad():
        seen = Observation(INPUTS, model(INPUTS), model)
        masked = torch.cat([dropout.passes(seen, 0.5, batch) for batch in range(3)])
    assert len({tuple(logits.flatten().tolist()) for logits in masked}) == 6


def test_four_points_at_most_and_the_last_stage_among_them() -> None:
    deep = Classifier(ViT(size=16, patch=8, width=16, depth=6, heads=2), example=INPUTS)
    assert find_points(deep) == Points(("blocks.1", "blocks.2", "blocks.4", "blocks.5"), head=True)


def test_a_plain_chain_is_dropped_before_its_head() -> None:
    chain = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 10))
    assert find_points(Classifier(chain)) == Points((), head=True)


class WorksInPlace(nn.Module):
    """Changes the output of its first stage in place, so that its record is invalid."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(4, 8), nn.Linear(8, 8)
        self.head = nn.Linear(8, 3)

    def forward(self, inputs: Tensor) -> Tensor:
        hidden = self.first(inputs)
        hidden += 1.0
        logits: Tensor = self.head(self.second(hidden) + hidden)
        return logits


def test_a_network_that_works_in_place_is_run_as_a_whole() -> None:
    model = Classifier(WorksInPlace().requires_grad_(False), example=torch.zeros(1, 4))
    dropout = Dropout(points=["first"], rate=0.5, masks=2)
    assert dropout.points_in(model).finished == ()
    inputs = torch.rand(5, 4, generator=torch.Generator().manual_seed(0))
    assert dropout.logits(Observation(inputs, model(inputs), model)).shape == (2, 5, 3)


@pytest.mark.parametrize("points", ["stages", "features", ["stages.0"]])
def test_without_dropout_nothing_disagrees(points: str | list[str]) -> None:
    step = adapt(tiny_resnet(), "tent", estimator=Pdd(points=points, rate=0.0)).step(INPUTS)  # type: ignore[arg-type]
    assert step.estimates == {"pdd": Estimate(1.0)}


def test_passes_are_shared_and_features_cost_none() -> None:
    def forwards(*estimators: Aetta | Pdd) -> float:
        return adapt(tiny_resnet(), "tent", estimator=estimators).step(INPUTS).forwards

    assert forwards(Aetta(masks=4)) == 5
    assert forwards(Aetta(masks=4), Pdd(masks=4)) == 5
    assert forwards(Aetta(masks=4), Pdd(masks=4, seed=1)) == 9
    assert forwards(Aetta(points="features")) == 1


def test_dropped_features_are_classified_by_the_head() -> None:
    model = Classifier(tiny_resnet())
    with torch.no_grad():
        logits = model(INPUTS)
        dropped = Dropout(points="features", rate=0.5, masks=2).logits(Observation(INPUTS, logits, model))
        kept = Dropout(points="features", rate=0.0, masks=2).logits(Observation(INPUTS, logits, model))
    torch.testing.assert_close(kept[0], logits)
    assert not torch.allclose(dropped[0], logits)
    assert dropped.shape == (2, 6, 10)


def test_a_batch_of_many_views_is_dropped_on_the_plain_inputs() -> None:
    model = adapt(tiny_resnet(), "cotta", confidence_threshold=2.0, views=2, estimator=Aetta(masks=3))
    # Anchor, two views, one plain pass to start from, three masks, and the student.
    assert model.step(INPUTS).forwards == 8


def test_the_published_rate_goes_by_the_number_of_classes() -> None:
    dropout = Dropout(points="stages", rate=None, masks=1)
    assert [dropout.rate_for(classes) for classes in (10, 100, 1000)] == [0.4, 0.3, 0.2]


@pytest.mark.slow
def test_the_fitted_rate_makes_disagreement_equal_the_error() -> None:
    digits = DATASETS["digits"]()
    inputs = torch.from_numpy(digits.inputs(np.arange(64))).permute(0, 3, 1, 2).float() / 255
    labels = torch.from_numpy(digits.labels[:64]).clone()
    labels[:32] += 1  # half of them wrong

    def disagreement(estimator: Pdd, holdout: list[object]) -> float:
        model = adapt(digits_resnet(), "source", estimator=estimator, holdout=holdout)  # type: ignore[arg-type]
        return 1 - model.step(inputs).estimates["pdd"].value

    assert disagreement(Pdd(rate="fitted", source_error=0.2, masks=5), [inputs]) == pytest.approx(0.2, abs=0.03)
    assert disagreement(Pdd(rate="fitted", masks=5), [(inputs, labels % 10)]) == pytest.approx(0.5, abs=0.05)


def test_a_rate_to_be_fitted_asks_for_inputs() -> None:
    with pytest.raises(ValueError, match="pass holdout=\\[inputs"):
        adapt(tiny_resnet(), "tent", estimator=Aetta(rate="fitted"))
    adapt(tiny_resnet(), "tent", estimator=Aetta(rate="fitted", masks=1), source=[INPUTS])  # these will do


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"points": "stage"}, "'stages'"),
        ({"rate": "fited"}, "'fitted'"),
        ({"rate": 1.0}, "below 1"),
        ({"masks": 0}, "masks of estimator 'aetta' must be a whole number from 1 to"),
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, object], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        adapt(tiny_resnet(), "source", estimator=Aetta(**options))  # type: ignore[arg-type]
