"""A shared folder holds all that is needed, and refuses what does not belong to it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import holdfast
from holdfast.connect import read_folder, write_folder
from holdfast.connect.config import CONFIG, README, STATE, WEIGHTS
from holdfast.model.adapted import AdaptedModel
from holdfast.models.tiny import tiny_resnet, tiny_vit
from holdfast.recipes import resolve
from holdfast.state import SavedStateError

NAMED = "imported:holdfast.models.tiny:tiny_resnet"


def adapted(folder: Path, network: nn.Module | str | None = None, **building: object) -> AdaptedModel:
    model = read_folder(folder, network, **building)
    assert isinstance(model, AdaptedModel)
    return model


@pytest.mark.parametrize("method", ["tent", "rdumb", "blend", "rotta", "sar"])
def test_a_model_comes_back_as_far_adapted_as_it_was(
    method: str, network: nn.Module, batches: Tensor, tmp_path: Path
) -> None:
    model = holdfast.adapt(network, method, source=list(batches))
    for batch in batches:
        model.step(batch)
    write_folder(model, tmp_path)
    loaded = adapted(tmp_path, network)
    assert loaded.recipe == model.recipe
    assert loaded.digest() == model.digest()
    assert torch.equal(loaded(batches[0]), model(batches[0]))


def test_the_default_of_a_transformer_keeps_its_moments(batches: Tensor, tmp_path: Path) -> None:
    network = tiny_vit().eval()
    model = holdfast.adapt(network, source=list(batches), estimator={"mine": "aetta", "gde": "gde"})
    for batch in batches:
        model.step(batch)
    write_folder(model, tmp_path)
    loaded = adapted(tmp_path, network)
    assert list(loaded.estimators) == ["mine", "gde"]
    assert loaded.method.referred
    assert loaded.digest() == model.digest()
    assert torch.equal(loaded(batches[0]), model(batches[0]))


def test_a_guarded_model_keeps_its_labels_and_its_budget(network: nn.Module, batches: Tensor, tmp_path: Path) -> None:
    model = holdfast.guard(network, "tent", budget=0.5, confidence=0.9)
    step = model.step(batches[0])
    for sample_id, wanted in zip(step.ids, step.wants_label, strict=True):
        if wanted:
            model.feedback(sample_id, 1)
    write_folder(model, tmp_path)
    loaded = adapted(tmp_path, network)
    assert isinstance(loaded, holdfast.GuardedModel)
    assert loaded.accuracy() == model.accuracy()
    assert loaded.audit.budget == 0.5
    assert loaded.step(batches[1]).wants_label == model.step(batches[1]).wants_label


def test_weights_in_the_folder_are_loaded_into_a_copy(network: nn.Module, batches: Tensor, tmp_path: Path) -> None:
    model = holdfast.adapt(network, "tent")
    model.step(batches[0])
    write_folder(model, tmp_path, network=NAMED, weights=True)
    fresh = tiny_resnet()
    before = {name: value.clone() for name, value in fresh.state_dict().items()}
    assert adapted(tmp_path, fresh).digest() == model.digest()
    assert all(torch.equal(value, before[name]) for name, value in fresh.state_dict().items())
    loaded = adapted(tmp_path, trust_remote_code=True)
    assert torch.equal(loaded.source(batches[0]), network(batches[0]))


def test_a_folder_does_not_run_the_code_that_it_names(network: nn.Module, tmp_path: Path) -> None:
    write_folder(holdfast.adapt(network, "tent"), tmp_path, network=NAMED, weights=True)
    with pytest.raises(ValueError, match="runs Python code of its own"):
        read_folder(tmp_path)


def test_a_state_of_another_network_is_refused(network: nn.Module, tmp_path: Path) -> None:
    write_folder(holdfast.adapt(network, "tent"), tmp_path)
    with pytest.raises(SavedStateError, match="other weights"):
        read_folder(tmp_path, tiny_resnet())
    with pytest.raises(ValueError, match="pass it as the second argument"):
        read_folder(tmp_path)


def test_weights_of_another_architecture_are_refused(network: nn.Module, tmp_path: Path) -> None:
    write_folder(holdfast.adapt(network, "tent"), tmp_path, weights=True)
    with pytest.raises(SavedStateError, match=f"{WEIGHTS} does not fit ViT"):
        read_folder(tmp_path, tiny_vit())


def test_a_recipe_builds_a_model_that_has_not_adapted(network: nn.Module, tmp_path: Path) -> None:
    write_folder(resolve("rdumb", lr=1e-4, every_batches=50), tmp_path)
    recipe = adapted(tmp_path, network).recipe
    assert (recipe["name"], recipe["options"]["lr"]) == ("rdumb", 1e-4)
    assert recipe["recovery_options"]["every_batches"] == 50
    assert not (tmp_path / STATE).exists()


def test_a_card_comes_back_for_its_network_alone(network: nn.Module, batches: Tensor, tmp_path: Path) -> None:
    card = holdfast.make_card(network, list(batches))
    write_folder(card, tmp_path)
    loaded = read_folder(tmp_path)
    assert isinstance(loaded, holdfast.Card)
    assert loaded.digest == card.digest
    assert holdfast.adapt(network, card=loaded).method.referred
    with pytest.raises(ValueError, match="other weights"):
        holdfast.adapt(tiny_resnet(), card=loaded)


@pytest.mark.parametrize(
    "content", ["", "[]", "[" * 5000, '{"kind": "pickle", "holdfast": "1"}', '{"kind": "adapted", "holdfast": 3}']
)
def test_a_config_of_something_else_is_refused(content: str, tmp_path: Path) -> None:
    (tmp_path / CONFIG).write_text(content)
    with pytest.raises(SavedStateError, match=CONFIG):
        read_folder(tmp_path)


@pytest.mark.parametrize("recipe", [None, {}, {"name": "tent"}, {"name": 3}, {"name": "tent", "options": 3}])
def test_a_recipe_without_its_structure_is_refused(recipe: object, network: nn.Module, tmp_path: Path) -> None:
    (tmp_path / CONFIG).write_text(json.dumps({"kind": "recipe", "holdfast": "0.2.0", "recipe": recipe}))
    with pytest.raises(SavedStateError, match="no such structure"):
        read_folder(tmp_path, network)


def test_an_empty_folder_and_something_else_are_refused(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=f"there is no {CONFIG}"):
        read_folder(tmp_path)
    with pytest.raises(TypeError, match="got a Linear"):
        write_folder(nn.Linear(2, 2), tmp_path)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="got a recipe"):
        write_folder("tent", tmp_path, weights=True)
    assert not (tmp_path / README).exists()
