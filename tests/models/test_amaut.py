"""AMAuT against its published sizes and the official code."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from holdfast.models import AMAUT_VERSIONS, AMAuT, AMAuTVersion, Classifier, LogMel, amaut, tiny_amaut
from holdfast.records import InputSpec


@pytest.mark.parametrize(
    ("version", "weights", "batch_norms"),
    [("sc2", 103_072_070, 64), ("rs", 99_136_586, 52), ("us8", 99_080_852, 68), ("vs", 97_005_989, 67)],
)
def test_the_published_versions_have_their_published_sizes(version: str, weights: int, batch_norms: int) -> None:
    with torch.device("meta"):
        network = AMAuT(AMAUT_VERSIONS[version])
    assert sum(parameter.numel() for parameter in network.parameters()) == weights
    assert sum(isinstance(part, nn.BatchNorm1d) for part in network.modules()) == batch_norms


def front_end(version: str) -> LogMel:
    facts = AMAUT_VERSIONS[version]
    fields = ("sample_rate", "samples", "mels", "fft", "window", "hop", "frames")
    return LogMel(**{field: getattr(facts, field) for field in fields})


def chirp(version: str) -> Tensor:
    """Return the waveform of the golden spectrograms."""
    facts = AMAUT_VERSIONS[version]
    seconds = facts.samples / facts.sample_rate
    time = np.arange(facts.samples) / facts.sample_rate
    tones = 0.30 * np.sin(2 * np.pi * (220 * time + 180 * time**2 / seconds))
    tones += 0.12 * np.sin(2 * np.pi * 1500 * time) * (time > 0.4 * seconds) + 0.05 * np.sin(2 * np.pi * 3700 * time)
    return torch.from_numpy((tones * np.hanning(facts.samples)).astype(np.float32))[None]


@pytest.mark.parametrize("version", ["sc2", "rs", "vs", "us8"])
def test_front_ends_are_those_of_the_official_code(version: str, golden_folder: Path) -> None:
    stored = np.load(golden_folder / "audio" / "frontends.npz")
    key = next(key for key in stored.files if key.startswith(f"{version}_"))
    spectrogram = front_end(version)(chirp(version))[0].numpy()
    rounding = 1e-4 if stored[key].dtype == np.float32 else 2e-3  # half precision is stored for the longer ones
    assert np.abs(spectrogram - stored[key].astype(np.float32)).max() < rounding


def official(weights: dict[str, Tensor], name: str, **facts: object) -> AMAuT:
    shared = {"fft": 64, "window": 64, "hop": 64, "token_width": 32, "depth": 2, "heads": 4, "hidden": 64, "dropout": 0}
    network = AMAuT(AMAuTVersion(16_000, 1_600, **shared, **facts))  # type: ignore[arg-type]
    network.front_end = nn.Identity()
    own = {key.removeprefix(f"{name}."): tensor for key, tensor in weights.items() if key.startswith(f"{name}.")}
    network.load_official(own)
    return network.eval()


@pytest.mark.parametrize(
    ("name", "facts"),
    [
        (
            "two_stage",
            {"num_classes": 5, "mels": 16, "frames": 104, "width": 8, "extra_blocks": (1, 2), "head_widths": (48, 16)},
        ),
        (
            "three_stage",
            {"num_classes": 3, "mels": 12, "frames": 120, "width": 4, "extra_blocks": (1, 1, 1), "head": "ends"},
        ),
    ],
)
def test_the_network_is_that_of_the_official_code(name: str, facts: dict[str, object], golden_folder: Path) -> None:
    folder = golden_folder / "audio"
    stored = {key: torch.from_numpy(array) for key, array in np.load(folder / "amaut_small.npz").items()}
    network = official(load_file(folder / "amaut_small.safetensors"), name, **facts)
    inputs = stored[f"{name}_input"]
    with torch.no_grad():
        tokens, early = network.backbone(inputs), stored[f"{name}_cnn_tokens_eval"]  # whose scale is 1e9
        assert (network.backbone.tokenizer(inputs) - early).abs().max() < 1e-4 * early.abs().max()
        assert torch.allclose(tokens, stored[f"{name}_tokens_eval"], atol=1e-4)
        assert torch.allclose(network(inputs), stored[f"{name}_logits_eval"], atol=1e-4)


def test_the_second_norm_of_a_layer_goes_nowhere() -> None:
    network, inputs = tiny_amaut(), torch.rand(2, 1_600)
    before = network(inputs)
    nn.init.constant_(network.backbone.layers[0].ffn_norm.weight, 9.0)
    assert torch.equal(network(inputs), before)


def test_a_classifier_knows_what_it_hears() -> None:
    classifier = Classifier(tiny_amaut(7))
    assert classifier.input_spec == InputSpec("audio", (1_600,), 16_000)
    assert (classifier.num_classes, classifier.head_name) == (7, "head.classifier")
    assert classifier.normalisation == "batch"
    inputs = torch.rand(3, 1_600)
    logits, features = classifier.forward_with_features(inputs)
    assert torch.equal(classifier.classify(features), logits)


def test_a_front_end_of_ones_own_is_found_by_trying() -> None:
    class Spectra(nn.Module):
        def forward(self, inputs: Tensor) -> Tensor:
            return inputs.unfold(1, 40, 160).transpose(1, 2)

    pooled = nn.Sequential(Spectra(), nn.Conv1d(40, 4, 3), nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(4, 3))
    assert Classifier(pooled).input_spec == InputSpec("audio", (16_000,))


def test_sounds_of_another_length_are_refused_in_words() -> None:
    with pytest.raises(ValueError, match=r"takes mono clips \(batch, 1600\) at 16000 Hz; resample"):
        tiny_amaut()(torch.zeros(2, 800))
    with pytest.raises(ValueError, match="takes mono clips"):
        tiny_amaut()(torch.zeros(2, 2, 1_600))


def test_versions_are_called_by_name() -> None:
    with pytest.raises(ValueError, match="unknown version 'sc3' of AMAuT"):
        amaut(version="sc3")
