"""Training procedures: audio augmentation, and the published schedule of AMAuT."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from scipy.io import wavfile

from holdfast.corruptions.audio import environments
from holdfast.data import AudioFolder, InMemoryAudio
from holdfast.models import tiny_amaut, weights_digest
from holdfast.training import PROCEDURES, AudioView, fit, procedure_of
from holdfast.training.fit import start_from
from holdfast.training.procedures import published_decay


@pytest.fixture
def noises() -> InMemoryAudio:
    values = np.random.default_rng(0).uniform(-0.3, 0.3, (12, 1_600)).astype(np.float32)
    return InMemoryAudio(values, np.arange(12) % 3, sample_rate=16_000)


def test_the_published_procedures_are_those_of_the_paper() -> None:
    found = {name: procedure_of(name) for name in PROCEDURES if name.startswith("amaut-")}
    assert {
        name: (procedure.epochs, procedure.batch_size, len(procedure.views)) for name, procedure in found.items()
    } == {
        "amaut-speech_commands": (50, 32, 4),
        "amaut-reefset": (15, 33, 2),
        "amaut-vocalsound": (35, 32, 4),
        "amaut-cochlscene": (30, 32, 2),
        "amaut-urbansound8k": (30, 32, 3),
    }
    assert all(procedure.label_smoothing == 0.1 for procedure in found.values())
    assert [name for name, procedure in found.items() if procedure.drop_last] == ["amaut-urbansound8k"]


def test_momentum_and_decay_come_with_the_second_epoch() -> None:
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], 1e-3)
    group = optimizer.param_groups[0]
    seen = []
    for epoch in range(6):
        published_decay(4)(optimizer, epoch, 0.0, 6)
        seen.append((round(group["lr"] * 1e3, 4), group["momentum"], group["weight_decay"]))
    rates = [1.0, 1.0, *(round((1 + 10 * done / 4) ** -0.75, 4) for done in (1, 2))]
    assert [rate for rate, *_ in seen] == [*rates, rates[-1], rates[-1]]  # in the tail it stays
    assert [rest for _, *rest in seen] == [[0, 0]] + 5 * [[0.9, 1e-3]]


def test_a_view_shifts_round_the_ends(noises: InMemoryAudio) -> None:
    heard = AudioView(shift_share=0.17)(noises, np.arange(12), np.random.default_rng(0)).numpy()
    assert heard.shape == (12, 1_600)
    assert np.array_equal(np.sort(heard, axis=1), np.sort(noises.waveforms, axis=1))
    steps = [next(step for step in range(-272, 273) if np.array_equal(np.roll(old, step), new))
             for old, new in zip(noises.waveforms, heard, strict=True)]  # fmt: skip
    assert len(set(steps)) > 6


def test_a_view_adds_faint_noise(noises: InMemoryAudio) -> None:
    view = AudioView(noises=(*environments("training", ["TBUS"]),), noise_snr_db=(20.0, 20.0))
    added = view(noises, np.arange(12), np.random.default_rng(0)).numpy() - noises.waveforms
    ratio = 10 * np.log10((noises.waveforms**2).sum(1) / (added**2).sum(1))
    assert ratio == pytest.approx(np.full(12, 20), abs=0.1)
    level = AudioView(uniform_level=0.015)(noises, np.arange(12), np.random.default_rng(0)).numpy() - noises.waveforms
    assert (level > -1e-6).all()
    assert level.max() == pytest.approx(0.015, rel=0.01)


def test_clips_of_other_lengths_are_placed_or_cut(tmp_path: Path) -> None:
    for name, samples in (("short", 800), ("long", 3_200)):
        (tmp_path / name).mkdir()
        wavfile.write(tmp_path / name / "a.wav", 16_000, np.arange(1, samples + 1, dtype=np.int16))
    data = AudioFolder(folder=tmp_path, seconds=0.1)  # long, short
    starts = set()
    for seed in range(8):
        long, short = AudioView()(data, np.arange(2), np.random.default_rng(seed)).numpy() * 32_768
        assert np.array_equal(np.diff(long), np.ones(1_599))
        assert np.array_equal(short[short > 0], np.arange(1, 801))
        starts.add((long[0], int(short.argmax())))
    assert len(starts) == 8


def test_training_on_sounds_is_seeded_dropout_and_all(noises: InMemoryAudio) -> None:
    digests = []
    for seed in (0, 0, 1):
        network = tiny_amaut(num_classes=3)
        fit(network, noises, procedure=procedure_of("amaut-sc2"), epochs=1, seed=seed)
        digests.append(weights_digest(network))
    assert digests[0] == digests[1] != digests[2]


def test_too_few_samples_for_whole_batches_are_refused(noises: InMemoryAudio) -> None:
    with pytest.raises(ValueError, match="12 samples do not fill one batch of 32"):
        fit(tiny_amaut(num_classes=3), noises, procedure=procedure_of("amaut-us8"), epochs=1)


def test_another_head_keeps_its_first_weights(tmp_path: Path) -> None:
    scenes, sounds = tiny_amaut(num_classes=13, seed=1), tiny_amaut(num_classes=10, seed=2)
    save_file(scenes.state_dict(), tmp_path / "scenes.safetensors")
    own_head = sounds.head.classifier.bias.clone()
    start_from(sounds, tmp_path / "scenes.safetensors")
    assert torch.equal(sounds.backbone.positions, scenes.backbone.positions)
    assert torch.equal(sounds.head.wide.weight, scenes.head.wide.weight)
    assert torch.equal(sounds.head.classifier.bias, own_head)
    save_file({"backbone.strange": torch.zeros(1)}, tmp_path / "other.safetensors")
    with pytest.raises(ValueError, match="belongs to another network"):
        start_from(sounds, tmp_path / "other.safetensors")
