"""Meter: measures nothing twice, keeps different settings apart, and survives a damaged cache."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from holdfast.calibration.meter import CalibrationProgress, Meter, Treatment, spread_over_classes
from holdfast.calibration.settings import CalibrationSettings
from holdfast.calibration.store import Store, default_cache
from holdfast.corruptions import CORRUPTIONS, store_as_jpeg
from holdfast.data import InMemoryImages

TREATMENTS: list[Treatment] = [
    (),
    (("contrast", 2),),
    (("contrast", 2), ("gaussian_noise", 4)),
    (("gaussian_noise", 4),),
]


def meter_of(model: nn.Module, data: InMemoryImages, cache: Path, **options: Any) -> Meter:
    tell = options.pop("tell", lambda _: None)
    settings = CalibrationSettings(**{"pictures": 60, "crop": "none", **options})
    return Meter(model, data, settings, cache=cache, tell=tell)


@pytest.fixture(autouse=True)
def short_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.calibration.meter.ROUND", 20)


def test_outcomes_are_those_of_the_corrupted_images(model: nn.Module, few: InMemoryImages, tmp_path: Path) -> None:
    meter = meter_of(model, few, tmp_path)
    outcomes = meter.outcomes(TREATMENTS, 40)
    assert outcomes.shape == (4, 40)
    clean = torch.from_numpy(few.images[meter.samples[:40]]).permute(0, 3, 1, 2) / 255
    assert np.array_equal(outcomes[0], model(clean).argmax(1).numpy() == few.labels[meter.samples[:40]])
    grey = CORRUPTIONS["contrast"].batch(few.images[meter.samples[:40]], 0.5, [], family="224")
    answers = model(torch.from_numpy(grey).permute(0, 3, 1, 2) / 255).argmax(1).numpy()
    assert np.array_equal(outcomes[1], answers == few.labels[meter.samples[:40]])
    assert meter.percent(()) == 100 * meter.outcomes([()], 60).mean()


def test_images_are_measured_as_they_are_stored(model: nn.Module, few: InMemoryImages, tmp_path: Path) -> None:
    meter = meter_of(model, few, tmp_path, storage_jpeg_quality=1)
    outcomes = meter.outcomes([(), (("contrast", 2),)], 60)
    clean = few.images[meter.samples]
    for outcome, images in zip(
        outcomes, (clean, CORRUPTIONS["contrast"].batch(clean, 0.5, [], family="224")), strict=True
    ):
        stored = torch.from_numpy(store_as_jpeg(images, 1)).permute(0, 3, 1, 2) / 255
        assert np.array_equal(outcome, model(stored).argmax(1).numpy() == few.labels[meter.samples])
    assert not np.array_equal(outcomes, meter_of(model, few, tmp_path).outcomes([(), (("contrast", 2),)], 60))


def test_nothing_is_measured_twice(model: nn.Module, few: InMemoryImages, tmp_path: Path) -> None:
    seen: list[CalibrationProgress] = []
    meter = meter_of(model, few, tmp_path, tell=seen.append)
    meter.turn_to(("contrast", "gaussian_noise"))
    first = meter.outcomes(TREATMENTS, 20)
    assert (meter.done, meter.saved) == (80, 0)
    more = meter.outcomes(TREATMENTS, 60)
    assert (meter.done, meter.saved) == (240, 0)
    assert np.array_equal(more[:, :20], first)
    meter.turn_to(("gaussian_noise", "contrast"))
    meter.outcomes([(), (("gaussian_noise", 4),), (("gaussian_noise", 4), ("contrast", 2))], 60)
    assert (meter.done, meter.saved) == (300, 120)
    again = meter_of(model, few, tmp_path)
    assert np.array_equal(again.outcomes(TREATMENTS, 60), more)
    assert (again.done, again.saved) == (0, 240)
    assert [progress.done for progress in seen] == list(range(20, 320, 20))
    assert seen[0].left == 60
    assert seen[-1].left == 0
    assert seen[0].pair == "contrast+gaussian_noise"


def test_common_beginnings_are_corrupted_once(
    model: nn.Module, few: InMemoryImages, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    applied: list[str] = []
    original = Meter.corrupted

    def counted(self: Meter, images: Any, treatment: Treatment, samples: Any) -> Any:
        applied.extend(name for name, _ in treatment)
        return original(self, images, treatment, samples)

    monkeypatch.setattr(Meter, "corrupted", counted)
    treatments: list[Treatment] = [(("shot_noise", i), ("contrast", j)) for i in (4, 8) for j in (1, 2, 3, 4)]
    meter_of(model, few, tmp_path).outcomes(treatments, 20)
    assert applied.count("shot_noise") == 2
    assert applied.count("contrast") == 8


def test_a_shorter_or_uneven_calibration_before_is_taken_as_far_as_it_goes(
    model: nn.Module, few: InMemoryImages, tmp_path: Path
) -> None:
    meter_of(model, few, tmp_path, pictures=50).outcomes(TREATMENTS, 50)
    longer = meter_of(model, few, tmp_path)
    fresh = meter_of(model, few, tmp_path / "fresh")
    assert longer.rounds == [20, 40, 60]
    assert np.array_equal(longer.outcomes(TREATMENTS, 60), fresh.outcomes(TREATMENTS, 60))
    assert longer.done == 80
    shorter = meter_of(model, few, tmp_path, pictures=50)
    assert shorter.rounds == [20, 40, 50]
    assert np.array_equal(shorter.outcomes(TREATMENTS, 50), fresh.outcomes(TREATMENTS, 60)[:, :50])
    assert shorter.done == 0


def test_what_outcomes_depend_on_is_kept_apart(model: nn.Module, few: InMemoryImages, tmp_path: Path) -> None:
    other = InMemoryImages(few.images, few.labels[::-1].copy())
    changed = nn.Sequential(nn.Flatten(), nn.Linear(3072, 10))
    folders = {
        meter.store.folder
        for meter in (
            meter_of(model, few, tmp_path),
            meter_of(model, other, tmp_path),
            meter_of(changed, few, tmp_path),
            meter_of(model, few, tmp_path, picture_seed=1),
            meter_of(model, few, tmp_path, family="64"),
            meter_of(model, few, tmp_path, storage_jpeg_quality=85),
        )
    }
    assert len(folders) == 6
    assert meter_of(model, few, tmp_path, pictures=10).store.folder in folders


def test_the_model_is_left_as_it_was(few: InMemoryImages, tmp_path: Path) -> None:
    network = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.Dropout(), nn.Linear(3600, 10))
    network[3].eval()
    before = {name: value.clone() for name, value in network.state_dict().items()}
    first = meter_of(network, few, tmp_path / "a").outcomes(TREATMENTS, 60)
    assert [part.training for part in network] == [True, True, True, False, True]
    assert all(torch.equal(value, before[name]) for name, value in network.state_dict().items())
    assert np.array_equal(first, meter_of(network, few, tmp_path / "b").outcomes(TREATMENTS, 60))


@pytest.mark.parametrize("damage", ["cut", "flipped", "text", "numbers", "objects"])
def test_a_damaged_file_is_measured_again(model: nn.Module, few: InMemoryImages, tmp_path: Path, damage: str) -> None:
    expected = meter_of(model, few, tmp_path).outcomes(TREATMENTS, 60)
    (path,) = tmp_path.glob("*/contrast+gaussian_noise.npz")
    content = bytearray(path.read_bytes())
    if damage == "cut":
        path.write_bytes(content[:100])
    elif damage == "flipped":
        content[content.find(b"NUMPY") + 130] ^= 1
        path.write_bytes(content)
    elif damage == "text":
        path.write_text("no archive")
    elif damage == "numbers":
        np.savez(path, **{"2-4": np.arange(60)})
    else:
        np.savez(path, allow_pickle=True, **{"2-4": np.array([None] * 60)})
    healed = meter_of(model, few, tmp_path)
    with pytest.warns(UserWarning, match=r"contrast\+gaussian_noise\.npz is damaged"):
        assert np.array_equal(healed.outcomes(TREATMENTS, 60), expected)
    assert healed.done == 60
    assert np.array_equal(meter_of(model, few, tmp_path).outcomes(TREATMENTS, 60), expected)


def test_writers_at_the_same_time_leave_a_whole_file(tmp_path: Path) -> None:
    def write(number: int) -> None:
        Store(tmp_path).write("fog", {str(number % 4): np.ones(number, np.bool_)})

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, range(1, 40)))
    stored = Store(tmp_path).read("fog")
    assert {name: len(array) for name, array in stored.items()} == {"0": 36, "1": 37, "2": 38, "3": 39}  # none is lost
    assert all(array.all() for array in stored.values())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["fog.npz", "lock"]
    Store(tmp_path).write("fog", {"0": np.ones(2, np.bool_), "new": np.ones(2, np.bool_)})
    assert len(Store(tmp_path).read("fog")["0"]) >= 2
    assert len(Store(tmp_path).read("fog")["new"]) == 2


def test_the_cache_is_where_the_environment_says(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOLDFAST_CACHE", str(tmp_path))
    assert default_cache() == tmp_path / "calibration"
    monkeypatch.delenv("HOLDFAST_CACHE")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert default_cache() == tmp_path / "home" / ".cache" / "holdfast" / "calibration"
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="set HOLDFAST_CACHE"):
        Store(tmp_path / "file" / "inside")


def test_first_samples_have_the_classes_of_the_whole() -> None:
    labels = np.repeat([0, 1, 2], [60, 30, 10])
    for seed in range(5):
        order = spread_over_classes(labels, np.random.default_rng(seed))
        assert sorted(order) == list(range(100))
        for count in (10, 20, 50):
            assert np.bincount(labels[order[:count]]).tolist() == [0.6 * count, 0.3 * count, 0.1 * count]
    orders = {tuple(spread_over_classes(labels, np.random.default_rng(seed))[:5]) for seed in range(5)}
    assert len(orders) == 5
    many = np.arange(1000)  # more classes than samples: any of them, not the first
    assert spread_over_classes(many, np.random.default_rng(0))[:100].mean() == pytest.approx(500, abs=100)
