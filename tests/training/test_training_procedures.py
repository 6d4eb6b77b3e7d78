"""Training procedures: audio augmentation, and the published schedules of AMAuT, HuBERT and CoNMix++."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from scipy.io import wavfile

from holdfast.audio import CLIPS
from holdfast.corruptions.audio import environments
from holdfast.data import AudioFolder, InMemoryAudio
from holdfast.models import CoNMix, CoNMixVersion, tiny_amaut, weights_digest
from holdfast.models.hubert import HuBERT
from holdfast.training import PROCEDURES, AudioView, fit, procedure_of
from holdfast.training.augmentation import cropping_spectrograms
from holdfast.training.fit import start_from
from holdfast.training.procedures import published_decay


@pytest.fixture
def noises() -> InMemoryAudio:
    values = np.random.default_rng(0).uniform(-0.3, 0.3, (12, 1_600)).astype(np.float32)
    return InMemoryAudio(values, np.arange(12) % 3, sample_rate=16_000)


def test_the_published_procedures_are_those_of_the_paper() -> None:
    procedures = {name: procedure_of(name) for name in PROCEDURES if "-" in name}
    assert {
        name: (procedure.epochs, procedure.batch_size, len(procedure.views)) for name, procedure in procedures.items()
    } == {
        "amaut-speech_commands": (50, 32, 4),
        "amaut-reefset": (15, 33, 2),
        "amaut-vocalsound": (35, 32, 4),
        "amaut-cochlscene": (30, 32, 2),
        "amaut-urbansound8k": (30, 32, 3),
        "hubert-speech_commands": (30, 32, 1),
        "hubert-reefset": (60, 33, 1),
        "hubert-vocalsound": (14, 32, 1),
        "hubert-urbansound8k": (15, 33, 1),
        "conmix-speech_commands": (20, 64, 1),
        "conmix-reefset": (15, 63, 1),
    }
    assert [name for name, procedure in procedures.items() if procedure.binary_loss] == ["hubert-reefset"]
    assert all((procedure.label_smoothing == 0.1) != procedure.binary_loss for procedure in procedures.values())
    assert [name for name, procedure in procedures.items() if procedure.drop_last] == ["amaut-urbansound8k"]


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


def test_a_published_head_trains_at_its_own_rate() -> None:
    weights = [torch.zeros(1, requires_grad=True) for _ in range(2)]
    how = procedure_of("conmix-sc2")
    optimizer = how.optimizer([{"params": weights[:1], "share": 0.1}, {"params": weights[1:], "share": 1.0}])
    how.schedule(optimizer, 7, 0.0, 20)
    assert [group["lr"] for group in optimizer.param_groups] == pytest.approx([1e-3, 1e-2])  # constant
    optimizer = procedure_of("hubert-rs").optimizer(weights)
    procedure_of("hubert-rs").schedule(optimizer, 45, 0.0, 60)  # the last 20 of 50 epochs keep the rate
    assert optimizer.param_groups[0]["lr"] == pytest.approx(5e-4 * (1 + 30 * 29 / 50) ** -0.75)


def test_hubert_trains_by_its_procedure() -> None:
    transformers = pytest.importorskip("transformers")
    clips = np.random.default_rng(0).uniform(-0.3, 0.3, (4, 30_080)).astype(np.float32)
    data = InMemoryAudio(clips, np.arange(4), sample_rate=16_000)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 24}
        front = {"conv_dim": (8, 8), "conv_kernel": (80, 8), "conv_stride": (40, 8), "num_conv_pos_embeddings": 8}
        config = transformers.HubertConfig(**sizes, **front, num_conv_pos_embedding_groups=2)
        network = HuBERT(transformers.HubertModel(config), 16, CLIPS["rs"], 37, head_widths=(8, 8))
    before = {name: weight.clone() for name, weight in network.state_dict().items()}
    fit(network, data, procedure=procedure_of("hubert-rs"), epochs=1)
    moved = [name for name, weight in network.state_dict().items() if not torch.equal(weight, before[name])]
    assert any(name.startswith("head.") for name in moved)
    assert any(name.startswith("backbone.encoder") for name in moved)


def test_conmix_trains_by_its_procedure_on_cropped_spectrograms() -> None:
    version = CoNMixVersion(16_000, 1_600, 3, 8, 100, 16, (1, 1, 1), 8, 1, 2, 16, (16, 8), 0.0)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        network = CoNMix(version)
    clips = np.random.default_rng(0).uniform(-0.3, 0.3, (3, 1_600)).astype(np.float32)
    plain = network.front_end(torch.from_numpy(clips))
    with cropping_spectrograms(network, np.random.default_rng(0)):
        heard = network.front_end(torch.from_numpy(clips))
    assert heard.shape == plain.shape == (3, 3, 224, 224)
    assert not torch.allclose(heard, plain)
    assert torch.equal(network.front_end(torch.from_numpy(clips)), plain)
    before = {name: weight.clone() for name, weight in network.named_parameters()}
    fit(network, InMemoryAudio(clips, np.arange(3), sample_rate=16_000), procedure=procedure_of("conmix-rs"), epochs=1)
    assert any(not torch.equal(weight, before[name]) for name, weight in network.named_parameters())
    with pytest.raises(ValueError, match="no spectrogram images"):
        fit(tiny_amaut(num_classes=3), InMemoryAudio(clips, np.arange(3), sample_rate=16_000),
            procedure=procedure_of("conmix-rs"), epochs=1)  # fmt: skip


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
