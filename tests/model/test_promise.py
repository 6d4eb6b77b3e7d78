"""Never worse than the source: one class per batch, a hundred times the learning rate; and what labels guarantee."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import holdfast
from holdfast.anchor import Opinion
from holdfast.data import DATASETS
from holdfast.data.tensors import as_inputs
from holdfast.methods.blend import blended
from holdfast.methods.guard import Guard
from holdfast.model.adapt import adapt, adapt_with
from holdfast.model.adapted import AdaptedModel
from holdfast.models import digits_resnet, tiny_resnet
from holdfast.recipes import recipe_names, resolve
from holdfast.state import SavedStateError

OPTIONS: dict[str, dict[str, Any]] = {"cotta": {"views": 2}, "guard": {"base": "tent"}}


@pytest.fixture(scope="module")
def digits() -> tuple[Tensor, Tensor]:
    data = DATASETS["digits"]("test")
    return as_inputs(data.inputs(np.arange(len(data.labels)))), torch.from_numpy(data.labels)


@pytest.fixture(scope="module")
def source() -> list[Tensor]:
    data = DATASETS["digits"]("validation")
    return list(as_inputs(data.inputs(np.arange(len(data.labels)))).split(64))


def one_class_per_batch(
    digits: tuple[Tensor, Tensor], batches: int, noise: float = 0.0
) -> Iterator[tuple[Tensor, Tensor]]:
    inputs, labels = digits
    generator = torch.Generator().manual_seed(0)
    for index in range(batches):
        members = (labels == index % 10).nonzero()[:, 0]
        chosen = members[torch.randint(len(members), (32,), generator=generator)]
        noisy = inputs[chosen] + noise * torch.randn(inputs[chosen].shape, generator=generator)
        yield noisy.clamp(0, 1), labels[chosen]


def accuracy(model: nn.Module, batches: Iterator[tuple[Tensor, Tensor]]) -> float:
    """Return the accuracy of the predictions."""
    right = [model(inputs).argmax(1) == labels for inputs, labels in batches]
    return float(torch.cat(right).double().mean())


@pytest.mark.slow
@pytest.mark.parametrize("noise", [0.0, 0.1])
def test_one_class_per_batch_ruins_tent_and_not_the_guard(
    digits: tuple[Tensor, Tensor], source: list[Tensor], noise: float
) -> None:
    def run(model: nn.Module) -> float:
        return accuracy(model, one_class_per_batch(digits, 10, noise))

    plain = run(digits_resnet())
    tent = run(adapt(digits_resnet(), "tent", recovery="regret"))
    assert tent < plain - 0.3  # a reset does not help a method that fails by its batch statistics
    for name in ("blend", "anchor"):
        assert run(adapt(digits_resnet(), name, source=source)) >= plain - 0.01, name
    for prediction in ("mix", "choose"):
        assert (
            run(adapt(digits_resnet(), "guard", base="tent", prediction=prediction, source=source)) >= plain - 0.01
        ), prediction


@pytest.mark.slow
def test_a_hundred_times_the_learning_rate_does_not_reach_what_is_served(
    digits: tuple[Tensor, Tensor], source: list[Tensor]
) -> None:
    generator = torch.Generator().manual_seed(1)
    inputs, labels = digits
    order = torch.randint(len(labels), (24, 32), generator=generator)
    noise = 0.25 * torch.randn(24, 32, *inputs.shape[1:], generator=generator)

    def run(name: str, **options: Any) -> list[float]:
        model = adapt(digits_resnet(), name, source=source, **options)
        steps = [model((inputs[rows] + more).clamp(0, 1)).argmax(1) for rows, more in zip(order, noise, strict=True)]
        return [float((step == labels[rows]).double().mean()) for step, rows in zip(steps, order, strict=True)]

    settled = slice(8, None)
    alone = np.mean(run("tent", lr=0.3)[settled])
    served = np.mean(run("guard", base="tent", base_options={"lr": 0.3})[settled])
    assert alone < 0.5
    assert served >= np.mean(run("blend")[settled]) - 0.01
    assert served > np.mean(run("source")[settled])


def test_the_gate_undoes_what_made_the_network_worse_and_the_alarm_resets_it(
    digits: tuple[Tensor, Tensor], source: list[Tensor]
) -> None:
    inputs, _ = digits
    rows = torch.randint(len(inputs), (8, 32), generator=torch.Generator().manual_seed(2))

    def guarded(**options: Any) -> AdaptedModel:
        return adapt(digits_resnet(), "guard", base="tent", base_options={"lr": 0.3}, source=source, **options)

    gated = guarded(gate_every=2, level=1e-12)
    open_gate = guarded(gate_every=0, level=0.01)
    tolerant = guarded(gate_every=0, level=0.01, margin=0.95)
    for chosen in rows:
        undone = gated.step(inputs[chosen]).gauges["undone"]
        recovered, tolerated = (model.step(inputs[chosen]) for model in (open_gate, tolerant))
    assert undone > 0
    assert recovered.gauges["alarms"] > 0
    assert tolerated.gauges["alarms"] == 0


def test_the_alarm_is_raised_by_the_source_where_the_anchor_knows_nothing(
    digits: tuple[Tensor, Tensor], source: list[Tensor], monkeypatch: pytest.MonkeyPatch
) -> None:
    inputs, _ = digits
    model = adapt(
        digits_resnet(), "guard", base="tent", base_options={"lr": 0.3}, gate_every=0, level=0.01, source=source
    )
    assert isinstance(model.method, Guard)
    monkeypatch.setattr(model.method.following, "forward", lambda batch: torch.zeros(len(batch), 10))
    for chosen in torch.randint(len(inputs), (8, 32), generator=torch.Generator().manual_seed(2)):
        alarms = model.step(inputs[chosen]).gauges["alarms"]
    assert alarms > 0


@pytest.mark.slow
def test_an_alarm_goes_back_to_the_newest_snapshot_that_is_good_on_the_batch(
    digits: tuple[Tensor, Tensor], source: list[Tensor], tmp_path: Path
) -> None:
    inputs, _ = digits
    batches = inputs[torch.randint(len(inputs), (8, 32), generator=torch.Generator().manual_seed(4))]

    def built(ring: int) -> AdaptedModel:
        options = {"gate_every": 1, "ring": ring, "level": 0.2}
        return adapt(digits_resnet(), "guard", base="tent", base_options={"lr": 1e-3}, source=source, **options)

    def guarded(ring: int) -> Guard:
        model = built(ring)
        for batch in batches[:6]:
            model(batch)
        model.save(tmp_path / "ring.safetensors")
        loaded = built(ring)
        loaded.load(tmp_path / "ring.safetensors")
        assert isinstance(loaded.method, Guard)
        assert len(loaded.method.good) == ring  # of six
        return loaded.method

    def broken(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        return {name: -tensor for name, tensor in tensors.items()}

    def after_an_alarm(guard: Guard) -> dict[str, Tensor]:
        assert guard.inner is not None
        newest = guard.good[-1]
        guard.good = [*guard.good[:-1], {**newest, "tensors": broken(newest["tensors"])}]
        guard.inner.return_to(guard.good[-1])
        for batch in batches[6:]:
            guard.adapt(batch, guard.predict(batch))
            if guard.alarms:
                break
        assert guard.alarms == 1
        tensors: dict[str, Tensor] = guard.inner.snapshot()["tensors"]
        return tensors

    ring = guarded(3)
    second = ring.good[-2]["tensors"]
    torch.testing.assert_close(after_an_alarm(ring), second, rtol=0, atol=0)
    assert after_an_alarm(guarded(1)) == {}  # nothing is left but the start


@pytest.mark.slow
def test_a_healthy_stream_raises_no_alarm_and_undoes_next_to_nothing(
    digits: tuple[Tensor, Tensor], source: list[Tensor]
) -> None:
    inputs, _ = digits
    model = adapt(digits_resnet(), "guard", base="tent", source=source)
    for chosen in torch.randint(len(inputs), (24, 32), generator=torch.Generator().manual_seed(3)):
        step = model.step(inputs[chosen])
    assert step.gauges["alarms"] == 0
    assert step.gauges["undone"] == 0


@pytest.mark.parametrize("norm", ["batch", "group"])
def test_the_source_is_the_callers_network_to_the_bit_whatever_was_learnt(norm: Literal["batch", "group"]) -> None:
    batches = list(torch.rand(3, 8, 3, 16, 16, generator=torch.Generator().manual_seed(0)))
    network = tiny_resnet(norm, widths=(8,)).eval()
    with torch.no_grad():
        expected = [network(batch) for batch in batches]
    for name in recipe_names():
        try:
            model = adapt(network, name, source=batches, **OPTIONS.get(name, {}))
        except ValueError:
            assert norm != "batch", name
            continue
        for batch in batches:
            model(batch)
        assert all(torch.equal(model.source(batch), want) for batch, want in zip(batches, expected, strict=True)), name
    inside = adapt(copy.deepcopy(network), "tent", lr=1.0, in_place=True)
    inside(batches[0])
    assert torch.equal(inside.source(batches[1]), expected[1])


@pytest.mark.parametrize("name", ["anchor", "blend"])
def test_without_batch_norm_the_prediction_is_that_of_the_source(name: str) -> None:
    model = adapt(tiny_resnet("group", widths=(8,)), name)
    for batch in torch.rand(3, 16, 3, 16, 16, generator=torch.Generator().manual_seed(0)):
        assert torch.equal(model(batch).argmax(1), model.source(batch).argmax(1))


def test_the_weight_of_the_anchor_grows_with_the_shift_and_both_get_its_proportions() -> None:
    source, plain, equal = torch.tensor([[0.7, 0.3]]), torch.tensor([[0.3, 0.7]]), torch.full((1, 2), 0.5)
    blends = [blended(source, Opinion(plain, equal, plain, shift), half_shift=0.05) for shift in (0.0, 0.05, 1e9)]
    expected = [source.lerp(plain, weight) for weight in (0.0, 0.5, 1.0)]
    torch.testing.assert_close(blends, expected)
    proportions = torch.tensor([[0.1, 0.9]])
    only_source, only_anchor = (
        blended(source, Opinion(plain, proportions, plain, shift), half_shift=0.05) for shift in (0.0, 1e9)
    )
    torch.testing.assert_close(only_source, torch.tensor([[0.07, 0.27]]) / 0.34)
    torch.testing.assert_close(only_anchor, torch.tensor([[0.03, 0.63]]) / 0.66)


def test_without_a_method_the_guard_predicts_as_the_blend_whatever_the_scale(
    digits: tuple[Tensor, Tensor], source: list[Tensor]
) -> None:
    inputs, labels = digits
    batches = [(inputs[rows], labels[rows]) for rows in torch.arange(len(labels)).split(32)]
    blend, guards = (
        adapt(digits_resnet(), source=source),
        [holdfast.guard(digits_resnet(), source=source, holdout=given) for given in (None, batches[4:6])],
    )
    for part, _ in batches[:4]:
        noisy = (part + 0.2 * torch.randn(part.shape, generator=torch.Generator().manual_seed(0))).clamp(0, 1)
        expected = blend(noisy)
        assert not torch.equal(
            expected.argmax(1), blend.source(noisy).argmax(1)
        )  # it is no guard that serves the source
        for model in guards:
            torch.testing.assert_close(model(noisy), expected, atol=0, rtol=0)
    assert guards[1].method.judge.now_temperature != 1.75  # type: ignore[union-attr]


def test_the_guard_decides_at_the_scale_that_it_estimates_with(
    digits: tuple[Tensor, Tensor], monkeypatch: pytest.MonkeyPatch
) -> None:
    inputs, labels = digits
    model = holdfast.guard(digits_resnet(), "tent", holdout=[(inputs[:64], labels[:64])])
    belief, asked = Opinion.belief, []

    def spied(opinion: Opinion, predictions: Tensor) -> Tensor:
        asked.append(opinion.plain)
        return belief(opinion, predictions)

    monkeypatch.setattr(Opinion, "belief", spied)
    model.step(inputs[64:128])
    assert len(asked) == 4  # of source and adapted network for the veto, of source and prediction for the estimate
    for plain in asked[1:]:
        torch.testing.assert_close(plain, asked[0])


def test_the_source_costs_only_the_weights_that_are_trained() -> None:
    model = adapt(tiny_resnet(), "tent")
    shared = {id(parameter) for parameter in model.method.parameters() if not parameter.requires_grad}
    source = model.get_submodule("_source")
    own = [parameter for parameter in source.parameters() if id(parameter) not in shared]
    assert sum(parameter.numel() for parameter in own) == sum(weight.numel() for weight in model.method.trained)


def test_labels_bound_accuracy_and_gain_and_survive_saving(
    digits: tuple[Tensor, Tensor], source: list[Tensor], tmp_path: Path
) -> None:
    inputs, labels = digits
    model = holdfast.guard(digits_resnet(), budget=0.5, source=source)
    served = []
    for rows in torch.arange(len(labels)).split(64)[:4]:
        step = model.step(inputs[rows])
        served.append(step.logits.argmax(1) == labels[rows])
        for sample_id, wanted in zip(step.ids, step.wants_label, strict=True):
            if wanted:
                assert model.feedback(sample_id, int(labels[rows][sample_id - step.ids[0]]))
    truth = float(torch.cat(served).double().mean())
    bounds = model.accuracy()
    assert bounds.low <= truth <= bounds.high
    assert bounds.high - bounds.low < 0.5
    estimate = step.estimates["guard"]
    assert estimate.low is not None
    assert estimate.gain is not None
    assert model.method.judge.fitted_temperature is not None  # type: ignore[union-attr]
    model.save(tmp_path / "guarded.safetensors")
    loaded = holdfast.guard(digits_resnet(), budget=0.5, source=source)
    loaded.load(tmp_path / "guarded.safetensors")
    assert loaded.accuracy() == bounds
    assert torch.equal(loaded(inputs[:8]), model(inputs[:8]))
    with pytest.raises(SavedStateError, match="recipe"):
        holdfast.guard(digits_resnet(), "tent").load(tmp_path / "guarded.safetensors")


def test_guards_say_what_is_wrong_with_their_options() -> None:
    with pytest.raises(ValueError, match="base of method 'guard' must be another method, got 'guard'"):
        holdfast.guard(tiny_resnet(), "guard")
    with pytest.raises(ValueError, match="ring of method 'guard' must be a whole number from 1 to"):
        holdfast.guard(tiny_resnet(), "tent", ring=0)
    with pytest.raises(ValueError, match="margin of method 'guard' must be a number from 0 to below 1, got 1"):
        holdfast.guard(tiny_resnet(), "tent", margin=1.5)
    with pytest.raises(ValueError, match="budget is the share"):
        holdfast.guard(tiny_resnet(), budget=2.0)
    with pytest.raises(ValueError, match="needs unlabelled source inputs"):
        holdfast.guard(tiny_resnet(), "eata")


@pytest.mark.parametrize("label", [99, -1, 3.7, True, "3"])
def test_a_label_that_is_no_class_is_refused(label: Any) -> None:
    model = holdfast.guard(tiny_resnet(), "tent", budget=1.0)
    model.step(torch.rand(2, 3, 32, 32))
    with pytest.raises(ValueError, match=r"^label must be a class from 0 to 9, or None, got "):
        model.feedback(0, label=label)
    assert model.audit.waiting == [0, 1]
    assert model.feedback(0, correct=True)
    assert model.feedback(1, label=torch.tensor(3))  # type: ignore[arg-type]


def test_labels_that_come_back_are_no_part_of_the_digest_of_what_was_adapted() -> None:
    model = holdfast.guard(tiny_resnet(), "tent", budget=1.0, source=[torch.rand(32, 3, 32, 32)])
    step = model.step(torch.rand(8, 3, 32, 32))
    before = model.digest()
    assert all(model.feedback(sample, label=0) for sample in step.ids)
    assert model.digest() == before


def test_inputs_of_the_stream_are_no_reference_although_methods_are_fitted_on_them() -> None:
    shown = [torch.rand(32, 3, 32, 32)]
    own, theirs = (
        adapt_with(resolve("blend"), tiny_resnet(), source=shown, from_stream=from_stream)
        for from_stream in (False, True)
    )
    assert own.method.referred
    assert not theirs.method.referred
