"""Reference and tiny networks: small, seeded, and as accurate as their files say."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn

from holdfast.data import Digits, Keywords
from holdfast.models import MODELS, WEIGHTS, Classifier, load_weights, tiny_resnet, tiny_vit, weights_digest
from holdfast.models.resnet import ResNet
from holdfast.training import accuracy

NORMALISATIONS = {"digits_resnet": "batch", "digits_resnet_gn": "group", "digits_vit": "layer"}


@pytest.mark.parametrize("name", NORMALISATIONS)
def test_shipped_weights(name: str) -> None:
    network = MODELS[name]()
    facts = json.loads((WEIGHTS / f"{name}.json").read_text())
    assert not network.training
    assert weights_digest(network) == facts["weights_digest"]
    assert (WEIGHTS / f"{name}.safetensors").stat().st_size < 1_000_000
    data = Digits("test")
    inputs = torch.from_numpy(data.images).permute(0, 3, 1, 2) / 255
    with torch.no_grad():
        correct = network(inputs).argmax(1) == torch.from_numpy(data.labels)
    accuracy = correct.double().mean().item()
    assert accuracy >= 0.97
    assert accuracy == pytest.approx(facts["accuracy"]["test"], abs=2e-3)  # kernels differ between machines


def test_shipped_weights_for_sounds() -> None:
    network = MODELS["keywords_amaut"]()
    facts = json.loads((WEIGHTS / "keywords_amaut.json").read_text())
    assert not network.training
    assert weights_digest(network) == facts["weights_digest"]
    assert (WEIGHTS / "keywords_amaut.safetensors").stat().st_size < 1_000_000
    classifier = Classifier(network)
    assert (classifier.num_classes, classifier.input_spec.shape) == (24, (16_000,))
    assert classifier.normalisation == "batch"


@pytest.mark.slow
def test_words_are_known_in_voices_that_were_never_heard() -> None:
    facts = json.loads((WEIGHTS / "keywords_amaut.json").read_text())
    share = accuracy(MODELS["keywords_amaut"](), Keywords("test"))
    assert 0.9 < share < 0.98
    assert share == pytest.approx(facts["accuracy"]["test"], abs=5e-3)


@pytest.mark.parametrize(("name", "normalisation"), NORMALISATIONS.items())
def test_reference_networks_are_probed(name: str, normalisation: str) -> None:
    classifier = Classifier(MODELS[name](trained=False))
    assert (classifier.num_classes, classifier.input_spec.shape) == (10, (3, 32, 32))
    assert classifier.normalisation == normalisation


def test_every_model_has_a_sentence() -> None:
    assert all(entry.summary.endswith(".") for entry in MODELS.entries())


@pytest.mark.parametrize("build", [tiny_resnet, tiny_vit])
def test_tiny_networks_are_seeded_and_leave_global_randomness_alone(build: Callable[..., nn.Module]) -> None:
    before = torch.random.get_rng_state()
    digests = [weights_digest(build(seed=seed)) for seed in (0, 0, 1)]
    assert torch.equal(torch.random.get_rng_state(), before)
    assert digests[0] == digests[1] != digests[2]


def test_unknown_normalisation_is_named() -> None:
    with pytest.raises(ValueError, match="unknown normalisation 'bacth'; choose one of batch, group, layer"):
        ResNet(norm="bacth")


def test_missing_weights_say_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="train them with `holdfast train`"):
        load_weights(tiny_resnet(), tmp_path / "none.safetensors")
