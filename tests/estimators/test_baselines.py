"""The other estimators: fitted temperature, earlier network, source and held-out data."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
from torch.nn import functional as F

from holdfast.estimators._disagreement import measure_disagreement
from holdfast.estimators.adv_perturb import AdvPerturb
from holdfast.estimators.aetta import Aetta
from holdfast.estimators.anchored import Anchored
from holdfast.estimators.gde import Gde
from holdfast.estimators.pdd import Pdd
from holdfast.estimators.softmax_score import SoftmaxScore
from holdfast.estimators.source_validation import SourceValidation
from holdfast.model.adapt import adapt
from holdfast.models import Classifier, digits_resnet, tiny_resnet
from holdfast.recipes import recipe_names
from holdfast.testing import check_estimator

GENERATOR = torch.Generator().manual_seed(0)
BATCHES = list(torch.rand(4, 8, 3, 16, 16, generator=GENERATOR))
LABELS = torch.randint(10, (8,), generator=GENERATOR)


def test_the_fitted_temperature_is_the_one_of_least_cross_entropy() -> None:
    estimator = SoftmaxScore(temperature="fitted")
    adapt(tiny_resnet(), "source", estimator=estimator, holdout=[(BATCHES[0], LABELS), (BATCHES[1], LABELS)])
    with torch.no_grad():
        logits, labels = tiny_resnet()(torch.cat(BATCHES[:2])).double(), torch.cat([LABELS, LABELS])
    fitted = estimator.fitted_temperature
    assert fitted is not None
    best = F.cross_entropy(logits / fitted, labels)
    assert all(best <= F.cross_entropy(logits / (fitted * factor), labels) for factor in (0.5, 2.0))


def test_a_hold_out_without_an_error_does_not_make_the_network_certain() -> None:
    estimator = SoftmaxScore(temperature="fitted")
    labels = tiny_resnet().eval()(BATCHES[0]).argmax(1)
    model = adapt(tiny_resnet(), "source", estimator=estimator, holdout=[(BATCHES[0], labels)])
    assert model.step(BATCHES[1]).estimates["softmax_score"].value < 0.99


def test_labels_are_asked_for_and_not_invented() -> None:
    for estimator in (SoftmaxScore(temperature="fitted"), SourceValidation()):
        with pytest.raises(ValueError, match=r"pass holdout=\[\(inputs, labels\)"):
            adapt(tiny_resnet(), "tent", estimator=estimator, source=BATCHES)
        with pytest.raises(ValueError, match="needs the labels"):
            adapt(tiny_resnet(), "tent", estimator=estimator, holdout=BATCHES)


def test_gde_compares_with_the_network_of_the_batch_before() -> None:
    model, source = adapt(digits_resnet(), "tent", estimator="gde"), adapt(digits_resnet(), "batch_norm")
    assert model.step(BATCHES[0]).estimates["gde"].value == 1.0
    noise = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for weight in model.method.trained:  # an update that is large enough to be seen
            weight.add_(torch.randn(weight.shape, generator=noise))
    step = model.step(BATCHES[1])
    expected = float((step.logits.argmax(1) == source(BATCHES[1]).argmax(1)).double().mean())
    assert step.estimates["gde"].value == expected < 1


def test_the_original_gde_compares_with_a_network_that_was_trained_apart(tmp_path: Path) -> None:
    other = tiny_resnet(seed=1)
    model = adapt(tiny_resnet(), "tent", estimator=Gde(network=other))
    with torch.no_grad():
        expected = [(other(batch).argmax(1), model.predict(batch).logits.argmax(1)) for batch in BATCHES[:1]]
    step = model.step(BATCHES[0])
    assert step.estimates["gde"].value == (expected[0][0] == expected[0][1]).double().mean()
    model.save(tmp_path / "state.safetensors")
    again = adapt(tiny_resnet(), "tent", estimator=Gde(network=other))
    again.load(tmp_path / "state.safetensors")
    assert again.step(BATCHES[1]).estimates == model.step(BATCHES[1]).estimates
    by_name = adapt(digits_resnet(), "source", estimator=Gde(network="digits_resnet_gn"))
    assert 0 <= by_name.step(torch.rand(4, 3, 32, 32)).estimates["gde"].value <= 1
    with pytest.raises(ValueError, match="must predict the 10 classes"):
        adapt(tiny_resnet(), "tent", estimator=Gde(network=tiny_resnet(num_classes=3)))


def test_gde_saves_only_what_moves() -> None:
    model = adapt(tiny_resnet(), "tent", estimator="gde")
    model.step(BATCHES[0])
    assert model.estimators["gde"].previous
    assert not any("conv" in name for name in model.estimators["gde"].previous)


def test_adv_perturb_asks_the_source_as_it_was_shipped() -> None:
    model = adapt(digits_resnet(), "tent", lr=3.0, estimator=AdvPerturb(size=0.0))
    for batch in BATCHES:
        step = model.step(batch)
        with torch.no_grad():
            shipped = digits_resnet()(batch).argmax(1)
        assert step.estimates["adv_perturb"].value == float((step.logits.argmax(1) == shipped).double().mean())


def test_perturbations_have_the_size_they_say() -> None:
    inputs = BATCHES[0] * 0.8 + 0.1
    for norm, order in (("l2", 2), ("linf", float("inf"))):
        estimator = AdvPerturb(norm=norm)  # type: ignore[arg-type]
        estimator.prepare(Classifier(tiny_resnet()))
        change = (estimator.perturb(inputs) - inputs).flatten(1)
        assert torch.allclose(change.norm(order, dim=1), torch.tensor(1 / 255), rtol=1e-3)
    with pytest.raises(ValueError, match="has no source network"):
        AdvPerturb().estimate(None)  # type: ignore[arg-type]


def test_perturbed_inputs_stay_between_0_and_1() -> None:
    estimator = AdvPerturb(norm="linf", size=0.05)
    estimator.prepare(Classifier(tiny_resnet()))
    perturbed = estimator.perturb(BATCHES[0].round())
    assert (float(perturbed.min()), float(perturbed.max())) == (0.0, 1.0)


def test_linf_lowers_the_source_confidence() -> None:
    estimator = AdvPerturb(norm="linf", size=0.05)
    estimator.prepare(Classifier(tiny_resnet()))
    with torch.no_grad():
        clean, perturbed = (tiny_resnet()(inputs) for inputs in (BATCHES[0], estimator.perturb(BATCHES[0])))
    labels = clean.argmax(1)
    assert F.cross_entropy(perturbed, labels) > F.cross_entropy(clean, labels)


def test_source_validation_is_the_accuracy_of_the_network_as_it_is_now() -> None:
    holdout = (torch.cat(BATCHES[:2]), torch.cat([LABELS, LABELS]))
    model = adapt(digits_resnet(), "tent", lr=3.0, estimator=SourceValidation(samples=12), holdout=[holdout])
    twin = adapt(digits_resnet(), "tent", lr=3.0)
    for batch in BATCHES:
        with torch.no_grad():
            expected = (twin.method.predict(holdout[0][:12]).argmax(1) == holdout[1][:12]).double().mean()
        twin(batch)
        assert model.step(batch).estimates["source_validation"].value == float(expected)


def test_held_out_labels_change_no_answer_and_reach_no_method() -> None:
    first, second, alone = (
        adapt(tiny_resnet(), "tent", estimator=estimator, holdout=[(BATCHES[0], labels)])
        for estimator, labels in (("source_validation", LABELS), ("source_validation", 9 - LABELS), (None, LABELS))
    )
    for batch in BATCHES:
        answers = [model(batch) for model in (first, second, alone)]
        assert torch.equal(answers[0], answers[1])
        assert torch.equal(answers[0], answers[2])


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.slow] if index % 2 else []) for index, name in enumerate(recipe_names())],
)
def test_all_estimators_at_once_leave_every_method_as_it_is(name: str) -> None:
    comparing = Anchored(compare_every=1)
    everything = [Aetta(masks=2), Pdd(masks=2), "softmax_score", "gde", "adv_perturb", "source_validation", comparing]
    watched, alone = (
        adapt(tiny_resnet(widths=(8,)), name, estimator=estimators, source=BATCHES[:1], holdout=[(BATCHES[0], LABELS)])
        for estimators in (everything, None)
    )
    for batch in BATCHES[:2]:
        step = watched.step(batch)
        assert torch.equal(step.logits, alone(batch))
        assert len(step.estimates) == 7
        unknown = {name for name, estimate in step.estimates.items() if not 0 <= estimate.value <= 1}
        assert unknown <= {"anchored"}
    watched.reset()  # what passed through the network with the source's values has left these as they were
    alone.reset()
    assert torch.equal(watched(BATCHES[0]), alone(BATCHES[0]))


def test_one_estimator_watches_twice_under_names_of_its_own_and_shares_what_it_can() -> None:
    twice = {"mild": Aetta(masks=2, rate=0.1), "wild": Aetta(masks=2, rate=0.8), "again": Aetta(masks=2, rate=0.8)}
    model = adapt(digits_resnet(), "tent", estimator=twice)
    estimates = model.step(BATCHES[0]).estimates
    assert list(estimates) == ["mild", "wild", "again"]
    assert estimates["mild"].value > estimates["wild"].value == estimates["again"].value
    assert model.recipe["estimators"]["wild"] == {**model.recipe["estimators"]["mild"], "rate": 0.8}
    assert model.recipe["estimators"]["wild"]["name"] == "aetta"


def test_an_estimator_by_name_draws_with_the_seed_of_the_method() -> None:
    first, second = (adapt(tiny_resnet(), "cotta", estimator="aetta", seed=seed) for seed in (1, 2))
    assert [model.recipe["estimators"]["aetta"]["seed"] for model in (first, second)] == [1, 2]


@pytest.mark.parametrize(
    "estimator", [Aetta(points="features"), Aetta(masks=3, rate="fitted")], ids=["features", "fitted"]
)
def test_variants_keep_the_contracts(estimator: Aetta) -> None:
    check_estimator(estimator, tiny_resnet(), BATCHES)


def test_a_network_that_answers_nonsense_is_not_estimated() -> None:
    model = adapt(tiny_resnet(), "tent", estimator="aetta")
    with torch.no_grad():
        model.method.model.module.fc.bias.fill_(float("nan"))
    estimate = model.step(BATCHES[0]).estimates["aetta"]
    assert math.isnan(estimate.value)
    assert estimate.unknown == "non-finite logits"
    assert model.estimators["aetta"].error is None


@pytest.mark.parametrize("method", ["t3a", "neo"])
def test_estimators_ask_the_head_that_answered(method: str) -> None:
    model = adapt(digits_resnet(), method, estimator=Pdd(points="features", rate=0.0, masks=1))
    network = model.method.predictor
    for batch in BATCHES:
        step = model.step(batch)
        assert step.estimates["pdd"].value == 1.0
        with torch.no_grad(), model.method.predictor_head():
            torch.testing.assert_close(network(batch), step.logits)
        with torch.no_grad():
            assert not torch.allclose(network(batch), step.logits)


def test_a_fitted_temperature_outlives_a_reset() -> None:
    score, inputs = SoftmaxScore(temperature="fitted"), torch.rand(16, 3, 16, 16)
    score.fit([(inputs, torch.arange(16) % 10)], Classifier(tiny_resnet()))
    fitted = score.fitted_temperature
    score.reset_state()
    assert score.fitted_temperature == fitted is not None


def test_logits_that_are_not_finite_count_as_the_worst_error() -> None:
    logits = torch.full((2, 4), math.nan)
    assert measure_disagreement(logits, logits[None]).error == 0.75
