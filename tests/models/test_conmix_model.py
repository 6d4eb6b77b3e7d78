"""The network of CoNMix++: its spectrograms, its sizes, and its adaptation."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from holdfast.model.adapt import adapt
from holdfast.models import CONMIX_VERSIONS, Classifier, CoNMix, CoNMixVersion
from holdfast.models.conmix import MelImage
from holdfast.models.mel import mel_decibels

PLACES = np.ix_([2, 5, 9, 30, 58], [20, 30, 40, 50, 60])
OFFICIAL = [
    [-41.71, -32.17, -41.71, -41.71, -41.71],
    [-41.71, -30.76, -41.71, -41.71, -41.71],
    [-5.85, -22.34, -27.68, -36.04, -41.71],
    [-41.71, -21.2, -41.71, -41.71, -41.71],
    [10.58, 15.21, 16.58, 15.2, 10.57],
]
SMALL = CoNMixVersion(
    16_000,
    1_600,
    5,
    mels=8,
    hop=40,
    width=8,
    blocks=(1, 1, 1),
    token_width=16,
    depth=2,
    heads=2,
    hidden=16,
    head_widths=(24, 16),
)


def signal() -> torch.Tensor:
    """Return the waveform of the official spectrogram."""
    time = np.arange(16_000) / 16_000
    tones = 0.30 * np.sin(2 * np.pi * (220 * time + 180 * time**2)) + 0.05 * np.sin(2 * np.pi * 3700 * time)
    tones += 0.12 * np.sin(2 * np.pi * 1500 * time) * (time > 0.4)
    return torch.from_numpy((tones * np.hanning(16_000)).astype(np.float32))[None]


def test_the_spectrogram_is_the_official_one_at_some_places() -> None:
    front_end = MelImage(16_000, 16_000, 81, 200)
    decibels = mel_decibels(signal(), front_end.hann, front_end.filters, 1024, 200)[0]
    assert decibels.shape == (81, 81)
    assert decibels.numpy()[PLACES] == pytest.approx(np.array(OFFICIAL), abs=1e-2)


def test_pictures_are_standardised_and_their_channels_equal() -> None:
    picture = MelImage(16_000, 16_000, 81, 200)(torch.cat([signal(), 0.1 * signal()]))
    assert picture.shape == (2, 3, 224, 224)
    assert torch.equal(picture[:, 0], picture[:, 2])
    assert picture.mean().item() == pytest.approx(0, abs=1e-4)
    assert picture.std().item() == pytest.approx(1, abs=1e-3)


def test_the_published_size_but_for_the_decoder_that_nothing_uses() -> None:
    for version, published in (("sc2", 103_694_278), ("rs", 103_694_794)):
        with torch.device("meta"):
            network = CoNMix(CONMIX_VERSIONS[version])
        assert published - sum(parameter.numel() for parameter in network.parameters()) == 3_847_232
        assert network.stages[-1].conv3.out_channels == 1024


def test_a_small_one_adapts_by_its_own_method() -> None:
    network = CoNMix(SMALL).eval()
    classifier = Classifier(network)
    assert (classifier.num_classes, classifier.input_spec.shape) == (5, (1_600,))
    assert isinstance(classifier.head, nn.Linear)
    model = adapt(network, "conmix", lr=0.01)
    sounds = torch.randn(4, 1_600, generator=torch.Generator().manual_seed(0)) / 3
    step = model.step(sounds)
    assert step.skipped is None
    assert not torch.equal(step.logits, model.predict(sounds).logits)
