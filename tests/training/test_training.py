"""Training is seeded, changes no global state, and records how the weights were made."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.io import wavfile

from holdfast.data import Digits, InMemoryImages
from holdfast.models import MODELS, load_weights, tiny_resnet, weights_digest
from holdfast.training import TrainResult, accuracy, fit, flipped_crops, moved, save_weights, train


@pytest.fixture(scope="module")
def few() -> InMemoryImages:
    data = Digits("validation")
    return InMemoryImages(data.images[:96], data.labels[:96])


def trained_digest(data: InMemoryImages, seed: int) -> str:
    network = tiny_resnet()
    fit(network, data, epochs=1, seed=seed)
    return weights_digest(network)


def test_the_seed_alone_decides(few: InMemoryImages) -> None:
    before = torch.random.get_rng_state()
    assert trained_digest(few, 0) == trained_digest(few, 0) != trained_digest(few, 1)
    assert torch.equal(torch.random.get_rng_state(), before)


def test_training_learns_and_reports(few: InMemoryImages) -> None:
    network, seen = tiny_resnet(), []
    fit(network, few, epochs=6, progress=lambda *progress: seen.append(progress))
    assert [done for done, _, _ in seen] == [1, 2, 3, 4, 5, 6]
    assert {epochs for _, epochs, _ in seen} == {6}
    assert seen[-1][2] < seen[0][2]
    assert not network.training


def test_accuracy_counts_correct_predictions(few: InMemoryImages) -> None:
    class Oracle(torch.nn.Module):
        def forward(self, inputs: torch.Tensor) -> torch.Tensor:
            predictions = torch.from_numpy(few.labels).clone()
            predictions[:24] = (predictions[:24] + 1) % 10
            return torch.nn.functional.one_hot(predictions, 10)

    assert accuracy(Oracle(), few) == 0.75


def test_movement_is_mild_and_geometric() -> None:
    inputs = torch.zeros(64, 3, 32, 32)
    inputs[:, :, 14:18, 14:18] = 1
    dots = InMemoryImages((inputs.permute(0, 2, 3, 1) * 255).byte().numpy(), np.zeros(64, np.int64))
    shaken = moved(dots, np.arange(64), np.random.default_rng(0))
    assert shaken.shape == inputs.shape
    assert float(shaken.min()) >= 0
    assert float(shaken.max()) <= 1
    mass = shaken.sum((1, 2, 3)) / inputs.sum((1, 2, 3))
    assert float(mass.min()) > 0.75
    assert float(mass.max()) < 1.3
    rows = (shaken[:, 0].sum(2) * torch.arange(32)).sum(1) / shaken[:, 0].sum((1, 2))
    assert 1 < float((rows - 15.5).abs().max()) < 5


def test_crops_shift_by_up_to_an_eighth_and_half_of_them_are_flipped() -> None:
    images = np.zeros((256, 32, 32, 3), np.uint8)
    images[:, 15, 8] = 255
    seen = flipped_crops(InMemoryImages(images, np.zeros(256, np.int64)), np.arange(256), np.random.default_rng(0))
    assert seen.shape == (256, 3, 32, 32)
    assert set(seen.unique().tolist()) == {0.0, 1.0}
    corners = seen[:, 0].nonzero()[:, 1:]
    assert len(corners) == 256  # none is shifted out of its image
    assert set(corners[:, 0].tolist()) == set(range(11, 20))
    columns, mirrored = corners[:, 1], corners[:, 1] > 15
    assert set(columns[~mirrored].tolist()) == set(range(4, 13))
    assert set(columns[mirrored].tolist()) == set(range(19, 28))
    assert 96 < int(mirrored.sum()) < 160


def test_cifar_has_a_procedure_of_its_own(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for split in ("train", "test"):
        np.savez(tmp_path / f"{split}.npz", images=rng.integers(0, 256, (8, 32, 32, 3), np.uint8), labels=np.arange(8))
    given = {"name": "cifar10", "folder": str(tmp_path)}
    ours, named, digits = (
        weights_digest(train("cifar_resnet20", given, epochs=1, procedure=procedure).module)
        for procedure in (None, "cifar10", "images")
    )
    assert ours == named != digits


def test_saved_weights_come_back(tmp_path: Path) -> None:
    network = tiny_resnet(seed=3)
    result = TrainResult(network, "tiny", "digits", 4, 3, {"train": 0.99, "validation": 0.98, "test": 0.97})
    path = save_weights(result, tmp_path / "weights")
    assert weights_digest(load_weights(tiny_resnet(), path)) == weights_digest(network)
    facts = json.loads(path.with_suffix(".json").read_text())
    assert facts["accuracy"] == {"train": 0.99, "validation": 0.98, "test": 0.97}
    assert facts["command"] == "holdfast train digits --model tiny --epochs 4 --seed 3"
    assert facts["weights_digest"] == weights_digest(network)
    assert path == tmp_path / "weights" / "tiny.safetensors"
    assert save_weights(result, tmp_path / "deep" / "mine.safetensors") == tmp_path / "deep" / "mine.safetensors"
    assert (tmp_path / "deep" / "mine.json").exists()


def test_data_without_splits_is_measured_on_other_data(tmp_path: Path) -> None:
    for take, level in (("train", 0.5), ("test", 0.5), ("test", -0.5)):
        for pitch in ("high", "low"):
            folder = tmp_path / take / pitch
            folder.mkdir(parents=True, exist_ok=True)
            tone = np.sin(np.arange(4_000) * (0.9 if pitch == "high" else 0.1))
            wavfile.write(folder / f"{level}.wav", 4_000, np.float32(level * tone))
    options = {"name": "sound_folder", "sample_rate": 4_000}
    result = train(
        {"name": "small_amaut", "num_classes": 2, "sample_rate": 4_000},
        {**options, "folder": str(tmp_path / "train")},
        test={**options, "folder": str(tmp_path / "test")},
        epochs=1,
    )
    assert set(result.accuracy) == {"train", "test"}
    facts = json.loads(save_weights(result, tmp_path).with_suffix(".json").read_text())
    assert f"--test '{{name: sound_folder, sample_rate: 4000, folder: {tmp_path / 'test'}}}'" in facts["command"]
    weights = str(tmp_path / "small_amaut.safetensors")
    again = MODELS["small_amaut"](num_classes=2, sample_rate=4_000, weights=weights)
    assert weights_digest(again) == facts["weights_digest"]


def test_an_unknown_model_suggests_the_nearest() -> None:
    with pytest.raises(ValueError, match="did you mean 'digits_resnet'"):
        train("digit_resnet")


@pytest.mark.slow
def test_training_again_gives_the_shipped_network() -> None:
    result = train("digits_resnet")
    assert result.accuracy["test"] == pytest.approx(accuracy(MODELS["digits_resnet"](), Digits("test")), abs=5e-3)
