"""The estimator `anchored`: correlated classes are not mistaken for collapse, collapses are found, unknowns stated."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from holdfast.anchor import AnchorTemperature, reweigh
from holdfast.data import DATASETS, Dataset
from holdfast.estimators import Observation
from holdfast.estimators.aetta import Aetta
from holdfast.estimators.anchored import Anchored
from holdfast.model.adapt import adapt
from holdfast.model.adapted import AdaptedModel
from holdfast.models import Classifier, digits_resnet, tiny_resnet
from holdfast.records import Estimate
from holdfast.testing import check_estimator

BATCHES = list(torch.rand(3, 8, 3, 16, 16, generator=torch.Generator().manual_seed(0)))


def digits(order: str, samples: int = 256) -> tuple[Tensor, Tensor]:
    """Return noisy test digits, sorted by class or shuffled, and their labels."""
    data = DATASETS["digits"]("test")
    chosen = np.random.default_rng(0).permutation(len(data.labels))[:samples]
    if order == "sorted":
        chosen = chosen[np.argsort(data.labels[chosen], kind="stable")]
    inputs, labels = as_tensors(data, chosen)
    noise = torch.randn(inputs.shape, generator=torch.Generator().manual_seed(1))
    return (inputs + 0.15 * noise).clamp(0, 1), labels


def as_tensors(data: Dataset, chosen: NDArray[np.int64]) -> tuple[Tensor, Tensor]:
    return torch.from_numpy(data.inputs(chosen)).permute(0, 3, 1, 2).float() / 255, torch.from_numpy(
        data.labels[chosen]
    )


HOLDOUT = [as_tensors(DATASETS["digits"]("validation"), np.arange(192))]


def off_by(model: AdaptedModel, inputs: Tensor, labels: Tensor, name: str = "anchored", batch: int = 64) -> float:
    """Return the mean absolute error of the estimates over the batches of a stream."""
    errors = []
    for some, right in zip(inputs.split(batch), labels.split(batch), strict=True):
        step = model.step(some)
        errors.append(abs(step.estimates[name].value - float((step.logits.argmax(1) == right).double().mean())))
    return sum(errors) / len(errors)


class Opinion(nn.Module):
    """Returns its inputs as logits, scaled."""

    def __init__(self, classes: int, scale: float = 1.0) -> None:
        super().__init__()
        self.head = nn.Linear(classes, classes, bias=False)
        with torch.no_grad():
            self.head.weight.copy_(scale * torch.eye(classes))

    def forward(self, inputs: Tensor) -> Tensor:
        logits: Tensor = self.head(inputs)
        return logits


def estimate_of(source: Tensor, answers: Tensor, **options: float) -> Estimate:
    """Return the estimate for logits, given those of the source for the same samples."""
    estimator = Anchored(**{"temperature": 1.75, **options})  # type: ignore[arg-type]
    model = Classifier(Opinion(source.shape[1]), example=source[:1])
    estimator.prepare(model)
    with torch.no_grad():
        return estimator.estimate(Observation(source, answers, model, source=model))


def width(estimate: Estimate) -> float:
    """Return the width of an interval, which must exist."""
    assert estimate.low is not None
    assert estimate.high is not None
    return estimate.high - estimate.low


@pytest.mark.slow
@pytest.mark.parametrize("order", ["shuffled", "sorted"])
@pytest.mark.parametrize("method", ["source", "batch_norm"])
def test_classes_in_any_order_are_no_collapse(order: str, method: str) -> None:
    assert off_by(adapt(digits_resnet(), method, estimator="anchored", holdout=HOLDOUT), *digits(order)) < 0.08


def test_aetta_takes_sorted_classes_for_collapse_and_we_do_not() -> None:
    ours, theirs = Anchored(), Aetta(points="features")
    model = adapt(digits_resnet(), "source", estimator=[ours, theirs], holdout=HOLDOUT)
    errors = [off_by(model, *digits("sorted"), name=name) for name in ("anchored", "aetta")]
    assert errors[0] < errors[1] / 4


def test_a_collapse_is_seen_within_ten_batches() -> None:
    model = adapt(digits_resnet(), "tent", estimator="anchored", optimizer="adam", lr=0.3, holdout=HOLDOUT)
    inputs, labels = digits("shuffled", 640)
    rows = []
    for some, right in zip(inputs.split(64), labels.split(64), strict=True):
        step = model.step(some)
        rows.append((step.estimates["anchored"].value, float((step.logits.argmax(1) == right).double().mean())))
    assert rows[-1][1] < 0.3  # it has collapsed
    assert all(abs(estimate - accuracy) < 0.15 for estimate, accuracy in rows[-3:])


@pytest.mark.parametrize("classes", [2, 10, 1000])
def test_total_collapse_is_near_chance_and_not_unknown(classes: int) -> None:
    source = 12 * torch.eye(classes).repeat(-(-64 // classes), 1)[:64]
    answers = torch.full((64, classes), -50.0)
    answers[:, 0] = 50.0
    right = float((source.argmax(1) == 0).double().mean())
    assert estimate_of(source, answers).value == pytest.approx(right, abs=0.02)


def test_many_classes_in_small_batches_are_not_punished() -> None:
    generator = torch.Generator().manual_seed(0)
    estimator = Anchored(temperature=1.75)
    model = Classifier(Opinion(1000), example=torch.zeros(1, 1000))
    estimator.prepare(model)
    estimates = []
    for _ in range(8):
        labels = torch.randint(1000, (8,), generator=generator)
        source = torch.randn(8, 1000, generator=generator)
        source[torch.arange(8), labels] += 14  # as sure as it is right
        estimates.append(estimator.estimate(Observation(source, source, model, source=model)).value)
    assert all(estimate > 0.6 for estimate in estimates)
    assert estimator.predictions is not None
    assert len(estimator.predictions) == 64


def test_single_samples_are_judged_by_a_window_of_them() -> None:
    inputs, labels = digits("shuffled", 128)
    model = adapt(digits_resnet(), "source", estimator="anchored", holdout=HOLDOUT)
    steps = [model.step(sample[None]) for sample in inputs]
    right = torch.cat([step.logits.argmax(1) for step in steps]) == labels
    estimate = steps[-1].estimates["anchored"]
    assert abs(estimate.value - float(right[-64:].double().mean())) < 0.15
    assert width(steps[0].estimates["anchored"]) > width(estimate)


def test_a_network_that_is_surer_than_a_source_without_an_opinion_is_unknown() -> None:
    answers = 30 * torch.eye(10).repeat(7, 1)[:64]
    unsure = 0.1 * torch.randn(64, 10, generator=torch.Generator().manual_seed(0))
    estimate = estimate_of(unsure, answers)
    assert math.isnan(estimate.value)
    assert estimate.unknown == "confidence is 100% for the network and 11% for the source"
    assert estimate_of(unsure, unsure).value < 0.2  # neither is sure: both say chance


def test_a_source_that_is_twice_as_sure_judges_in_place_of_an_anchor_that_knows_nothing() -> None:
    right = 10 * torch.eye(10).repeat(5, 1)
    model = Classifier(Opinion(10, scale=0.01), example=right[:1])

    def gain(source_scale: float) -> float | None:
        estimator = Anchored(temperature=1.0)
        estimator.prepare(model)
        seen = Observation(right, right.roll(1, 1), model, source=lambda inputs: source_scale * inputs)
        return estimator.estimate(seen).gain  # at once, because the anchor is unsure

    assert gain(1.0) == pytest.approx(-1, abs=0.01)
    assert gain(0.05) == pytest.approx(0, abs=0.02)  # nobody knows


def test_a_collapse_is_told_by_a_number_even_where_the_source_is_unsure() -> None:
    unsure = 0.1 * torch.randn(64, 10, generator=torch.Generator().manual_seed(0))
    estimate = estimate_of(unsure, 30 * torch.eye(10)[[3] * 64])
    assert estimate.unknown is None
    assert estimate.value < 0.2


def test_a_hopeless_source_is_at_chance_or_unknown() -> None:
    torch_state = digits_resnet(trained=False)
    inputs, labels = digits("shuffled", 128)
    for method in ("source", "batch_norm", "tent"):
        model = adapt(torch_state, method, estimator="anchored")
        for some, right in zip(inputs.split(64), labels.split(64), strict=True):
            step = model.step(some)
            accuracy, estimate = float((step.logits.argmax(1) == right).double().mean()), step.estimates["anchored"]
            assert math.isnan(estimate.value) or abs(estimate.value - accuracy) < 0.25


def test_a_source_of_nonsense_is_unknown() -> None:
    estimate = estimate_of(torch.full((4, 3), math.nan), torch.zeros(4, 3))
    assert math.isnan(estimate.value)
    assert estimate.unknown is not None


def test_the_interval_narrows_with_the_window_and_holds_the_value() -> None:
    source = torch.randn(512, 10, generator=torch.Generator().manual_seed(0)) * 3
    few, many = estimate_of(source[:4], source[:4]), estimate_of(source, source)
    assert width(few) > width(many) > 0.1
    assert few.low is not None
    assert few.high is not None
    assert 0 <= few.low <= few.value <= few.high <= 1


def reaches(temperature: AnchorTemperature, confidence: float, *, follows: bool = True) -> tuple[float, float]:
    """Return the squares of how far the interval of an anchor with this confidence reaches down and up."""
    plain = torch.full((64, 10), (1 - confidence) / 9)
    plain[:, 0] = confidence
    estimate = temperature.estimate(torch.full((64,), 0.6), torch.full((64, 10), 0.1), plain, follows=follows)
    return (estimate.value - estimate.low) ** 2, (estimate.high - estimate.value) ** 2


def test_the_interval_reaches_up_by_the_square_of_the_confidence_that_was_lost_and_down_by_all_of_it() -> None:
    temperature, unknown = AnchorTemperature(), AnchorTemperature()
    temperature.fitted, temperature.clean_confidence = True, 0.9
    none, some, twice = (reaches(temperature, 0.9 - lost) for lost in (0.0, 0.05, 0.1))
    assert none[0] == pytest.approx(none[1])
    assert (twice[0] - none[0]) / (some[0] - none[0]) == pytest.approx(4, rel=1e-3)  # of standard deviations 2
    assert (twice[1] - none[1]) / (some[1] - none[1]) == pytest.approx(16, rel=1e-3)  # of standard deviations 4
    assert some[0] - none[0] == pytest.approx((1.645 * 1.2 * 0.05) ** 2, rel=1e-3)  # as docs/estimators.md has it
    assert twice[1] - none[1] == pytest.approx((1.645 * 4 * 0.1**2) ** 2, rel=1e-3)
    assert reaches(temperature, 0.99) == pytest.approx(none)
    assert reaches(unknown, 0.9) == pytest.approx(some)  # half of the 0.1 that it lacks
    assert reaches(AnchorTemperature(given=True), 0.8) == pytest.approx(none)  # the user knows


def test_where_no_statistics_follow_a_shift_the_interval_reaches_further_down_than_up() -> None:
    temperature = AnchorTemperature()
    temperature.fitted, temperature.clean_confidence = True, 0.9
    none, some = (reaches(temperature, 0.9 - lost, follows=False) for lost in (0.0, 0.05))
    assert none[0] == pytest.approx(none[1])
    for square, before, factor in zip(some, none, (2.2, 0.8), strict=True):
        assert square - before == pytest.approx((1.645 * factor * 0.05) ** 2, rel=1e-3)


def test_held_out_labels_set_the_temperature_and_inputs_alone_set_it_by_agreement() -> None:
    labels = torch.randint(10, (8,), generator=torch.Generator().manual_seed(0))
    noise = torch.randn(HOLDOUT[0][0].shape, generator=torch.Generator().manual_seed(0))
    some_noise = (HOLDOUT[0][0] + 0.1 * noise).clamp(0, 1)
    with_labels, with_inputs, unlike, without = Anchored(), Anchored(), Anchored(), Anchored()
    adapt(digits_resnet(), "tent", estimator=with_labels, holdout=[(BATCHES[0], labels)])
    adapt(digits_resnet(), "tent", estimator=with_inputs, holdout=[some_noise])
    adapt(digits_resnet(), "tent", estimator=unlike, holdout=[digits("shuffled")[0]])
    adapt(digits_resnet(), "tent", estimator=without)
    assert with_labels.anchor.now_temperature > 1.75  # random labels: it is right never, and far too sure
    assert with_inputs.anchor_temperature.error > 0.04
    assert with_inputs.anchor.now_temperature not in (1.75, with_labels.anchor.now_temperature)
    assert (
        not unlike.anchor_temperature.fitted
    )  # inputs with more noise are not those whose statistics the network stores
    assert without.anchor.now_temperature == 1.75  # until the stream is seen
    assert with_labels.anchor.recent is None  # held-out data are no part of the stream


def test_a_known_accuracy_sets_the_temperature_and_its_error_widens_the_interval() -> None:
    known = Anchored(clean_accuracy=0.6)
    model = adapt(digits_resnet(), "source", estimator=known, holdout=[BATCHES[0]])
    assert known.network is not None
    logits = known.network(BATCHES[0]) / known.anchor.now_temperature
    assert float(logits.softmax(1).amax(1).mean()) == pytest.approx(0.6, abs=0.05)  # its statistics have moved on
    assert known.anchor_temperature.error == pytest.approx(math.hypot((0.6 * 0.4 / len(BATCHES[0])) ** 0.5, 0.05))
    model.reset()
    before = model.step(BATCHES[1]).estimates["anchored"]
    model.reset()
    known.anchor_temperature.error += 0.1
    after = model.step(BATCHES[1]).estimates["anchored"]
    assert before.low is not None
    assert after.low is not None
    assert after.low < before.low


def test_a_known_accuracy_reaches_the_estimator_by_name_and_bounds_the_scale_of_a_stream() -> None:
    inputs, _ = digits("shuffled", 128)
    for accuracy in (0.4, 0.6):
        model = adapt(digits_resnet(), "source", estimator="anchored", clean_accuracy=accuracy)
        steps = [model.step(some) for some in inputs.split(64)]
        estimator = model.estimators["anchored"]
        assert isinstance(estimator, Anchored)
        assert float(estimator.anchor.scaled(estimator.anchor_temperature.compared).amax(1).mean()) == pytest.approx(
            accuracy
        )  # type: ignore[arg-type]
        assert steps[-1].estimates["anchored"].unknown is None
    with pytest.raises(ValueError, match="nothing uses clean_accuracy"):
        adapt(digits_resnet(), "tent", clean_accuracy=0.6)


@pytest.mark.slow
@pytest.mark.parametrize("overconfident", [0.3, 1.0, 3.0])
def test_the_scale_of_a_new_network_is_found_without_labels(overconfident: float) -> None:
    class Rescaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.network = digits_resnet()

        def forward(self, inputs: Tensor) -> Tensor:
            logits: Tensor = self.network(inputs) * overconfident
            return logits

    inputs, labels = digits("shuffled")
    model = adapt(Rescaled().eval(), "source", estimator="anchored")
    for some, right in zip(inputs.split(64), labels.split(64), strict=True):
        step = model.step(some)
        estimate, accuracy = step.estimates["anchored"], float((step.logits.argmax(1) == right).double().mean())
        assert estimate.low is not None
        assert estimate.high is not None
        assert estimate.low <= accuracy <= estimate.high
        assert abs(estimate.value - accuracy) < 0.15
        assert width(estimate) < 0.6


def test_without_batch_norm_and_held_out_data_the_scale_is_unknown_and_with_labels_it_is_not() -> None:
    inputs, labels = digits("shuffled", 64)
    network = tiny_resnet("group").eval()
    alone = adapt(network, "source", estimator=Anchored(compare_every=1)).step(inputs).estimates["anchored"]
    assert math.isnan(alone.value)
    assert alone.unknown is not None
    assert "pass holdout=[(inputs, labels)]" in alone.unknown
    assert alone.gain is not None  # a difference needs no temperature to have a sign
    labelled = adapt(network, "source", estimator="anchored", holdout=[(inputs, labels)])
    assert not math.isnan(labelled.step(inputs).estimates["anchored"].value)


def test_a_hold_out_without_an_error_does_not_make_the_anchor_certain() -> None:
    estimator = Anchored()
    labels = digits_resnet()(BATCHES[0]).argmax(1)
    adapt(digits_resnet(), "source", estimator=estimator, holdout=[(BATCHES[0], labels)])
    assert estimator.anchor.now_temperature > 0.1  # 0.05 is the smallest that is tried
    assert estimator.anchor_temperature.error > 0.05  # eight labels


def test_the_anchor_keeps_up_with_inputs_and_not_with_the_method() -> None:
    calm, wild = (adapt(digits_resnet(), "tent", lr=lr, estimator="anchored") for lr in (0.0, 10.0))
    for batch in BATCHES:
        calm(batch), wild(batch)
    one, other = (model.estimators["anchored"].anchor.recent for model in (calm, wild))
    assert torch.equal(one, other)


@pytest.mark.slow
def test_statistics_reach_further_back_when_classes_are_few() -> None:
    memories = {}
    for order in ("shuffled", "sorted"):
        model = adapt(digits_resnet(), "source", estimator="anchored", holdout=HOLDOUT)
        for some in digits(order)[0].split(64):
            model(some)
        memories[order] = model.estimators["anchored"].anchor.memory_samples
    assert 64 <= memories["shuffled"] < 100
    assert 300 < memories["sorted"] <= 640
    alone = adapt(digits_resnet(), "source", estimator="anchored")
    alone(digits("shuffled", 1)[0])
    assert alone.estimators["anchored"].anchor.memory_samples == 64


def test_the_contracts_hold_under_a_method_with_a_teacher() -> None:
    check_estimator("anchored", tiny_resnet(), BATCHES[:2], method="cotta")


def test_reweighing_leaves_balanced_samples_alone_and_sharpens_bursts() -> None:
    vague = torch.full((60, 10), 0.05) + 0.5 * torch.eye(10).repeat(6, 1)
    torch.testing.assert_close(reweigh(vague), vague, atol=0.06, rtol=0)
    assert float(reweigh(vague[[0] * 10])[:, 0].amin()) > 0.95


class LongRow(nn.Module):
    """Flattens its feature maps with view(), which needs a contiguous layout."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm, self.head = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Linear(4 * 30 * 30, 5)

    def forward(self, inputs: Tensor) -> Tensor:
        logits: Tensor = self.head(self.norm(self.conv(inputs)).view(len(inputs), -1))
        return logits


def test_a_network_that_relies_on_the_order_of_memory_is_left_in_it() -> None:
    check_estimator("anchored", LongRow().eval(), [nn.functional.interpolate(batch, 32) for batch in BATCHES])


@pytest.mark.parametrize(
    "options", [{"temperature": 0.0}, {"source_share": 2.0}, {"window": 0}, {"clean_accuracy": 76.0}]
)
def test_options_that_make_no_sense_are_refused(options: dict[str, float]) -> None:
    (name,) = options
    with pytest.raises(ValueError, match=f"{name}.* must be .*, got {options[name]}"):
        adapt(tiny_resnet(), "source", estimator=Anchored(**options))  # type: ignore[arg-type]
