"""The adapted model: state it keeps, inputs it refuses, values it returns."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from holdfast import adapt
from holdfast.model.adapted import AdaptedModel
from holdfast.models.classifier import weights_digest
from holdfast.models.tiny import tiny_resnet
from holdfast.recovery.periodic import Periodic
from holdfast.registry import UnknownNameError
from holdfast.state import SavedStateError


@pytest.fixture
def inputs() -> Tensor:
    return torch.rand(8, 3, 16, 16, generator=torch.Generator().manual_seed(0))


def test_a_step_tells_everything(inputs: Tensor) -> None:
    model = adapt(tiny_resnet(), "tent", estimator="softmax_score")
    step = model.step(inputs)
    assert step.logits.shape == (8, 10)
    assert step.loss is not None
    assert step.loss > 0
    assert set(step.estimates) == {"softmax_score"}
    assert (step.forwards, step.backwards) == (1.0, 1.0)
    assert step.recovered is None
    assert step.skipped is None


def test_the_answer_comes_before_the_update(inputs: Tensor) -> None:
    frozen = adapt(tiny_resnet(), "batch_norm")(inputs)
    model = adapt(tiny_resnet(), "tent", lr=0.1)
    assert torch.equal(model(inputs), frozen)
    assert not torch.equal(model(inputs), frozen)


def test_in_place_changes_the_callers_model(inputs: Tensor) -> None:
    network = tiny_resnet()
    before = weights_digest(network)
    adapt(network, "tent", in_place=True)(inputs)
    assert weights_digest(network) != before


def test_objects_with_logits_are_classifiers(inputs: Tensor) -> None:
    class Output:
        def __init__(self, logits: Tensor) -> None:
            self.logits = logits

    class Wrapped(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.network = tiny_resnet()

        def forward(self, inputs: Tensor) -> Output:
            return Output(self.network(inputs))

    expected = adapt(tiny_resnet(), "tent")
    model = adapt(Wrapped(), "tent")
    for _ in range(2):
        assert torch.equal(model(inputs), expected(inputs))


def test_train_and_eval_do_not_reach_the_network(inputs: Tensor) -> None:
    model = adapt(tiny_resnet(), "source")
    expected = model(inputs)
    assert torch.equal(model.train()(inputs), expected)
    assert not any(part.training for part in model.method.modules() if part is not model.method)


def test_saved_state_is_refused_by_another_model(tmp_path: Path, inputs: Tensor) -> None:
    model = adapt(tiny_resnet(), "tent")
    model(inputs)
    model.save(tmp_path / "state")
    with pytest.raises(SavedStateError, match="other weights"):
        adapt(tiny_resnet(seed=1), "tent").load(tmp_path / "state")


def test_saved_state_is_refused_by_another_recipe_and_the_field_is_named(tmp_path: Path) -> None:
    model = adapt(tiny_resnet(), "tent")
    model.save(tmp_path / "state")
    with pytest.raises(SavedStateError, match=r"options is .*0\.001.* there"):
        adapt(tiny_resnet(), "tent", lr=0.5).load(tmp_path / "state")


def test_a_damaged_file_is_refused_and_nothing_is_half_loaded(tmp_path: Path, inputs: Tensor) -> None:
    path = tmp_path / "state"
    model = adapt(tiny_resnet(), "tent")
    model(inputs)
    model.save(path)
    content = bytearray(path.read_bytes())
    content[-3] ^= 1
    path.write_bytes(content)
    fresh = adapt(tiny_resnet(), "tent")
    before = copy.deepcopy(fresh.state_dict())
    with pytest.raises(SavedStateError, match="damaged"):
        fresh.load(path)
    path.write_bytes(content[:100])
    with pytest.raises(SavedStateError, match="damaged"):
        fresh.load(path)
    after = fresh.state_dict()
    assert all(torch.equal(value, after[name]) for name, value in before.items() if isinstance(value, Tensor))


def test_saving_holds_what_moved_and_not_the_frozen_weights(tmp_path: Path, inputs: Tensor) -> None:
    network = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(4 * 14 * 14, 500))
    model = adapt(network.eval(), "tent", example=inputs)
    model(inputs)
    model.save(tmp_path / "state")
    assert (tmp_path / "state").stat().st_size < 10_000
    assert not list(tmp_path.glob(".*"))


def test_optimiser_moments_and_recovery_counters_are_saved(tmp_path: Path, inputs: Tensor) -> None:
    def build() -> AdaptedModel:
        return adapt(tiny_resnet(), "tent", recovery="periodic", every_batches=3, lr=0.05)

    model, again = build(), build()
    for _ in range(2):
        model(inputs)
    model.save(tmp_path / "state")
    again.load(tmp_path / "state")
    steps = [(model.step(inputs), again.step(inputs)) for _ in range(3)]
    assert all(torch.equal(left.logits, right.logits) for left, right in steps)
    assert [left.recovered for left, _ in steps] == [right.recovered for _, right in steps]
    assert steps[1][0].recovered


def test_unknown_names_suggest_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'tent'"):
        adapt(tiny_resnet(), "tnet")
    with pytest.raises(UnknownNameError, match="did you mean 'momentum'"):
        adapt(tiny_resnet(), "tent", momentm=0.5)
    with pytest.raises(UnknownNameError, match="did you mean 'periodic'"):
        adapt(tiny_resnet(), "tent", recovery="periodical")
    with pytest.raises(UnknownNameError, match="did you mean 'imagenet-c'"):
        adapt(tiny_resnet(), "tent", preset="imagenet")
    with pytest.raises(ValueError, match=r"lr of method 'tent' must be a number of at least 0, got '0\.1'"):
        adapt(tiny_resnet(), "tent", lr="0.1")


def test_options_reach_the_recovery_of_a_recipe() -> None:
    model = adapt(tiny_resnet(), "rdumb", every_batches=7, lr=0.5)
    assert isinstance(model.recovery, Periodic)
    assert model.recipe["recovery_options"] == {"every_batches": 7, "scope": "full"}
    assert model.recipe["options"]["lr"] == 0.5


@pytest.mark.parametrize(
    ("classes", "preset", "lr"), [(10, "cifar10-c", 5e-3), (100, "cifar100-c", 5e-3), (1000, "imagenet-c", 2.5e-4)]
)
def test_the_preset_follows_the_number_of_classes(classes: int, preset: str, lr: float) -> None:
    model = adapt(tiny_resnet(num_classes=classes), "eta")
    assert (model.preset, model.method.lr) == (preset, lr)


def test_the_preset_follows_the_normalisation() -> None:
    assert adapt(tiny_resnet("layer", num_classes=1000), "tent").preset == "imagenet-c-layer"


def test_eata_without_source_inputs_says_what_to_pass() -> None:
    with pytest.raises(ValueError, match="pass source="):
        adapt(tiny_resnet(), "eata")


def test_moving_to_another_type_moves_declared_state_and_the_origin(inputs: Tensor) -> None:
    model = adapt(tiny_resnet(), "eta", entropy_margin=2.0, redundancy_margin=1.1)
    model(inputs)
    model.double()
    assert model(inputs.double()).dtype == torch.float64
    model.reset()
    assert torch.isfinite(model(inputs.double())).all()


def test_the_passes_of_a_step_are_its_own(inputs: Tensor) -> None:
    model = adapt(tiny_resnet(), "tent")
    steps = [model.step(inputs) for _ in range(3)]
    assert [(step.forwards, step.backwards) for step in steps] == [(1.0, 1.0)] * 3


def test_a_reset_returns_estimators_to_their_start(inputs: Tensor) -> None:
    model = adapt(tiny_resnet(), "tent", estimator="gde")
    model(inputs)
    previous = model.estimators["gde"].get_extra_state()["previous"]
    assert previous is not None
    model.reset()
    assert model.estimators["gde"].get_extra_state()["previous"] is None


def test_a_state_dict_never_holds_the_source_also_inside_of_another_module() -> None:
    whole = nn.ModuleDict({"camera": adapt(tiny_resnet(), "tent")})
    assert not [name for name in whole.state_dict() if "_source" in name]


def test_estimators_by_name_draw_with_the_seed_of_the_method() -> None:
    model = adapt(tiny_resnet(), "tent", seed=3, estimator="aetta")
    assert model.recipe["estimators"]["aetta"]["seed"] == 3
