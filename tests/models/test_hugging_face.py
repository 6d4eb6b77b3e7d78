"""HuBERT with the published heads, and any audio classifier of Hugging Face; small random ones, no network needed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from small_hubert import SMALL_HUBERT, save_hubert

from holdfast.model.adapt import adapt
from holdfast.models import Classifier, hubert, hugging_face_audio
from holdfast.models.hubert import ConvolutionHead
from holdfast.models.hugging_face import HuggingFaceAudio

transformers = pytest.importorskip("transformers")
pytestmark = pytest.mark.filterwarnings("ignore")  # raised by the library itself


@pytest.mark.parametrize(
    ("version", "parameters"), [("sc2", 96_479_942), ("rs", 96_480_458), ("us8", 111_351_818), ("vs", 119_772_166)]
)
def test_the_published_sizes(version: str, parameters: int) -> None:
    with torch.device("meta"):
        network = hubert(version=version)
    assert sum(parameter.numel() for parameter in network.parameters()) == parameters


@pytest.mark.parametrize(("version", "samples", "classes"), [("sc2", 16_000, 35), ("us8", 176_400, 10)])
def test_a_small_one_hears_clips_and_adapts(version: str, samples: int, classes: int, tmp_path: Path) -> None:
    network = hubert(version=version, config=SMALL_HUBERT)
    clips = torch.randn(4, samples, generator=torch.Generator().manual_seed(0)) / 3
    assert Classifier(network).input_spec.shape == (samples,)
    model = adapt(network, "dhauds", lr=0.01)
    first = model.step(clips)
    assert first.logits.shape == (4, classes)
    assert first.skipped is None
    assert not torch.equal(first.logits, model.predict(clips).logits)
    save_file(network.state_dict(), tmp_path / "weights.safetensors")
    again = hubert(version=version, config=SMALL_HUBERT, seed=1, weights=str(tmp_path / "weights.safetensors"))
    assert torch.equal(again(clips), network(clips))
    with pytest.raises(ValueError, match="takes mono clips"):
        network(clips[:, :-1])


def test_the_convolution_head_is_the_official_one(golden_folder: Path) -> None:
    stored = np.load(golden_folder / "audio" / "amaut_small.npz")
    ours = {"root": "stem", "layers": "stages", "downsample": "shortcut.0", "ds_gn": "shortcut.1"}
    ours |= {"fc1": "narrow", "fc2": "classifier"}
    weights = {}
    for name, tensor in load_file(golden_folder / "audio" / "amaut_small.safetensors").items():
        prefix, _, own = name.partition(".")
        if prefix == "hubert_conv_head":
            own = own.replace("norm1", "norm") if own.startswith("norm1") else own
            for theirs, mine in ours.items():
                own = own.replace(theirs, mine)
            weights[own] = tensor
    head = ConvolutionHead(16, [2], 7).eval()
    head.load_state_dict(weights)
    logits = head(torch.from_numpy(stored["hubert_conv_head_input"]))
    assert logits.detach().numpy() == pytest.approx(stored["hubert_conv_head_logits"], abs=1e-5)


def test_any_classifier_of_hugging_face(tmp_path: Path) -> None:
    network, extractor = save_hubert(tmp_path)
    loaded = hugging_face_audio(model=str(tmp_path), seconds=0.25)
    clips = torch.randn(3, 4_000, generator=torch.Generator().manual_seed(0)) / 3 + 0.1
    values = extractor(list(clips.numpy()), sampling_rate=16_000, return_tensors="pt").input_values
    assert torch.allclose(loaded(clips), network(values).logits, atol=1e-4)
    assert Classifier(loaded).num_classes == 5
    assert adapt(loaded, "tent").step(clips).skipped is None
    with pytest.raises(ValueError, match=r"cannot be loaded .*; name a folder or an audio classifier"):
        hugging_face_audio(model=str(tmp_path / "nothing"), seconds=1.0)


def test_extractors_that_make_spectrograms_are_used_as_they_are() -> None:
    config = transformers.ASTConfig(
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        num_mel_bins=16,
        max_length=32,
        num_labels=4,
    )
    network = transformers.ASTForAudioClassification(config).eval()
    extractor = transformers.ASTFeatureExtractor(num_mel_bins=16, max_length=32)
    clips = torch.randn(2, 4_000, generator=torch.Generator().manual_seed(0)) / 3
    model = HuggingFaceAudio(network, extractor, 4_000)
    values = extractor(list(clips.numpy()), sampling_rate=16_000, return_tensors="pt").input_values
    assert torch.allclose(model(clips), network(values).logits, atol=1e-5)
