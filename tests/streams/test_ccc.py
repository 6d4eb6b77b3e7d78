"""CCC: difficulties, orders, walks and settings."""

from __future__ import annotations

import json
import pickle
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from holdfast.corruptions import CORRUPTIONS
from holdfast.data import InMemoryImages
from holdfast.registry import UnknownNameError
from holdfast.streams import CCC_SETTINGS, Calibration, Transition, Walk, ccc, ccc_setting
from holdfast.streams.walks.difficulty import POOLS, corruption_order, reach_percent, target_percent_of, walk_pairs
from holdfast.streams.walks.path import official_path

HERE = Path(__file__).parent
ORDERS = json.loads((HERE / "ccc_orders.json").read_text())["orders"]
PARAMS = json.loads((HERE / "ccc_params.json").read_text())["params"]
# Published accuracy of a ResNet-50 on ImageNet-C at severity 5, in percent.
RESNET50 = {
    "gaussian_noise": 2.2,
    "shot_noise": 2.9,
    "impulse_noise": 1.8,
    "defocus_blur": 17.9,
    "glass_blur": 9.8,
    "motion_blur": 14.8,
    "zoom_blur": 22.5,
    "snow": 16.9,
    "frost": 23.3,
    "fog": 24.4,
    "brightness": 58.9,
    "contrast": 5.4,
    "elastic_transform": 17.0,
    "pixelate": 20.6,
    "jpeg_compression": 31.6,
}


def transition(first: str, second: str, start: int, end: int) -> Transition:
    points = [*((start, j) for j in range(end + 1)), *((i, end) for i in reversed(range(start)))]
    return Transition(first, second, tuple(points), tuple(30.0 + k / 10 for k in range(len(points))))


@pytest.fixture(scope="module")
def calibration() -> Calibration:
    paths = (transition("contrast", "jpeg", 3, 2), transition("jpeg", "brightness", 1, 4))
    return Calibration(paths, 33.0, difficulty="medium", family="224")


@pytest.mark.parametrize(("difficulty", "target"), [("easy", 40), ("medium", 20), ("hard", 0)])
@pytest.mark.parametrize("seed", [43, 44, 45])
def test_the_official_orders_are_drawn_exactly(difficulty: str, target: int, seed: int) -> None:
    official = [CORRUPTIONS[name].name for name in ORDERS[f"baseline_{target}_seed_{seed}"]]
    assert list(islice(corruption_order(POOLS[difficulty], seed), 400)) == official
    assert next(walk_pairs(POOLS[difficulty], seed)) == tuple(official[:2])


@pytest.mark.parametrize("name", PARAMS)
def test_severities_in_quarters_mean_what_they_mean_officially(name: str) -> None:
    corruption = CORRUPTIONS[name.removesuffix("(1/c)")]
    for severity, expected in PARAMS[name].items():
        quantities = corruption.quantities(float(severity), "224")[: len(expected["raw"])]
        assert quantities == pytest.approx(expected["raw"], abs=1e-6)


@pytest.mark.parametrize("difficulty", POOLS)
def test_the_official_pools_are_what_reaches_the_target(difficulty: str) -> None:
    limit = reach_percent(target_percent_of(difficulty, 76.1, 0.1), 76.1, 0.1)
    assert tuple(name for name, percent in RESNET50.items() if percent <= limit) == POOLS[difficulty]


def test_targets_leave_other_models_the_same_share_above_chance() -> None:
    for difficulty, share in (("easy", 39.9 / 76), ("medium", 19.9 / 76)):
        assert target_percent_of(difficulty, 90, 10) == pytest.approx(10 + 80 * share)
    assert target_percent_of("hard", 90, 10) == 0
    with pytest.raises(UnknownNameError, match="did you mean 'medium'"):
        target_percent_of("medum", 90, 10)
    with pytest.raises(ValueError, match="at least 2 corruptions, got"):
        next(corruption_order(["fog", "fog"], 0))


DATA = InMemoryImages(np.zeros((23, 32, 32, 3), np.uint8), np.arange(23) % 4)
PATHS = (transition("contrast", "brightness", 2, 1), transition("brightness", "contrast", 1, 3))
WALKS = [Walk(Calibration(PATHS, 30.0), 23, images_per_step=n, seed=n) for n in (1, 7, 23, 60)]


@given(st.sampled_from(WALKS), st.integers(0, 10**9), st.integers(0, 200), st.integers(0, 200))
def test_any_stretch_of_a_walk_is_part_of_the_whole(walk: Walk, start: int, length: int, cut: int) -> None:
    whole = walk.picks(start, start + length)
    cut = min(cut, length)
    parts = [walk.picks(start, start + cut), walk.picks(start + cut, start + length)]
    for field in ("samples", "domains", "severities"):
        assert np.array_equal(np.concatenate([getattr(part, field) for part in parts]), getattr(whole, field))
    assert len(whole) == length


def test_steps_follow_the_path_and_then_begin_again() -> None:
    walk = WALKS[1]
    points = [point for path in PATHS for point in path.points]
    picks = walk.picks(0, 2 * 7 * len(points))
    expected = np.repeat([*points, *points], 7, axis=0) / 4
    assert np.array_equal(picks.severities, expected)
    lengths = [len(path.points) * 7 for path in PATHS]
    assert np.array_equal(picks.domains, np.tile(np.repeat([0, 1], lengths), 2))
    percents = np.repeat([percent for path in PATHS for percent in path.expected_percent], 7)
    assert walk.expected(np.arange(2 * 7 * len(points))) == pytest.approx(np.tile(percents, 2) / 100)
    assert walk.next_break(5) is None


@pytest.mark.parametrize("walk", WALKS[1:], ids=lambda walk: str(walk.images_per_step))
def test_no_sample_comes_twice_in_a_step_and_every_step_shuffles_anew(walk: Walk) -> None:
    n = walk.images_per_step
    steps = [walk.picks(k * n, (k + 1) * n).samples for k in range(10**6, 10**6 + 9)]
    for samples in steps:
        for start in range(0, n, 23):
            part = samples[start : start + 23]
            assert len(set(part.tolist())) == len(part)
    assert len({tuple(samples) for samples in steps}) == 9
    assert {sample for samples in steps for sample in samples.tolist()} == set(range(23))


def test_every_pass_through_the_data_has_its_own_order() -> None:
    walk = WALKS[3]  # a step has 60 of 23 images
    samples = walk.picks(0, 180).samples
    passes = [tuple(samples[60 * step + start : 60 * step + start + 14]) for step in range(3) for start in (0, 23, 46)]
    assert len(set(passes)) == 9


def test_a_pair_that_comes_again_is_one_domain() -> None:
    walk = Walk(Calibration((*PATHS, PATHS[0]), 30.0), 23, images_per_step=1)
    assert [domain.name for domain in walk.domains] == ["contrast+brightness", "brightness+contrast"]
    assert walk.picks(0, 15).domains.tolist() == [0] * 4 + [1] * 5 + [0] * 4 + [0] * 2


def joined(stream: Any, **options: Any) -> tuple[torch.Tensor, list[int], list[str]]:
    batches = list(stream.starting_at(**options))
    labels = [int(label) for batch in batches for label in batch.labels]
    return torch.cat([b.inputs for b in batches]), labels, [name for b in batches for name in b.domains]


def test_the_stream_is_the_same_from_anywhere_in_any_batches(few: InMemoryImages, calibration: Calibration) -> None:
    stream = ccc(few, calibration=calibration, images_per_step=6, storage_jpeg_quality=None)
    assert stream.length == 6 * calibration.steps == 6 * 12
    inputs, *rest = joined(stream, position=0, batch_size=64)
    for batch_size, position in ((1, 0), (7, 0), (13, 31)):
        other, *others = joined(stream, position=position, batch_size=batch_size)
        assert torch.equal(other, inputs[position:])
        assert others == [part[position:] for part in rest]
    sizes = [len(batch) for batch in stream.starting_at(0, batch_size=16)]
    assert sizes == [16, 16, 16, 16, 8]  # batches cross steps and pairs
    travelled = pickle.loads(pickle.dumps(stream))
    assert travelled.fingerprint == stream.fingerprint
    assert torch.equal(travelled.first(5), stream.first(5))
    assert stream.rendering.draws == "position"


def test_length_is_cycles_or_samples_or_endless(few: InMemoryImages, calibration: Calibration) -> None:
    def length(**options: Any) -> int | None:
        return ccc(few, calibration=calibration, images_per_step=10, **options).length

    assert length() == 120
    assert length(cycles=3) == 360
    assert length(samples=50) == 50
    assert length(cycles=None) is None
    assert length(cycles=None, samples=500) == 500
    with pytest.raises(ValueError, match="cycles of stream 'ccc' must be a whole number from 1 to"):
        length(cycles=0)
    endless = ccc(few, calibration=calibration, images_per_step=10, cycles=None)
    assert next(endless.starting_at(10**9, batch_size=4)).position == 10**9


def test_fingerprints_cover_pairs_points_and_expected_accuracies(few: InMemoryImages, calibration: Calibration) -> None:
    def fingerprint(*paths: Transition, **options: Any) -> str:
        return ccc(few, calibration=Calibration(paths, 33.0), **options).fingerprint

    one = transition("contrast", "jpeg", 3, 2)
    other = Transition(one.first, one.second, one.points, (31.0, *one.expected_percent[1:]))
    reverse = Transition(one.second, one.first, one.points, one.expected_percent)
    full = Transition("contrast", "jpeg_compression", one.points, one.expected_percent)
    shorter = transition("contrast", "jpeg", 2, 2)
    prints = [fingerprint(path) for path in (one, other, reverse, shorter)]
    prints += [fingerprint(one, one), fingerprint(one, images_per_step=7), fingerprint(one, seed=44)]
    assert len(set(prints)) == len(prints)
    assert fingerprint(full) == prints[0]
    spec = ccc(few, calibration=calibration).spec
    assert json.loads(json.dumps(spec)) == spec
    assert spec["plan"]["target_percent"] == 33.0
    assert spec["plan"]["difficulty"] == "medium"


def test_family_and_storage_are_those_of_the_calibration(few: InMemoryImages) -> None:
    path = transition("contrast", "brightness", 2, 1)
    stream = ccc(few, calibration=Calibration((path,), 30.0, family="64", storage_jpeg_quality=85))
    assert (stream.rendering.family, stream.rendering.storage_jpeg_quality) == ("64", 85)
    with pytest.raises(ValueError, match="difficulty, family cannot be combined with calibration="):
        ccc(few, calibration=Calibration((path,), 30.0), difficulty="easy", family="32")
    with pytest.raises(ValueError, match="pass calibration="):
        ccc(few)


def test_without_a_calibration_one_is_made_from_the_options(few: InMemoryImages, calibration: Calibration) -> None:
    asked: list[dict[str, Any]] = []

    def calibrate(_data: Any, **options: Any) -> Calibration:
        asked.append(options)
        return calibration

    ccc(few, calibrate=calibrate, difficulty="hard", pairs=2, seed=44)
    ccc(few, calibrate=calibrate, images_per_step=10, samples=333)
    assert asked == [{"seed": 44, "difficulty": "hard", "pairs": 2}, {"seed": 43, "steps": 34}]


def test_a_calibration_is_plain_json(calibration: Calibration, few: InMemoryImages, tmp_path: Path) -> None:
    path = calibration.save(tmp_path / "folder" / "calibration.json")
    assert Calibration.load(path) == calibration
    assert ccc(few, calibration=path).fingerprint == ccc(few, calibration=calibration).fingerprint
    assert [file.name for file in path.parent.iterdir()] == ["calibration.json"]
    text = path.read_text()
    for damaged in (
        text[:-20],
        "[]",
        text.replace('"schema": 1', '"schema": 2'),
        text.replace("[3, 0]", "[3, 1]"),
        text.replace('"margin_percent"', '"margin"'),
        text.replace('"target_percent": 33.0, ', ""),
        text.replace("30.0, 30.1", "30.0"),
        text.replace("30.0, 30.1", "30.0, NaN"),
        text.replace('"target_percent": 33.0, ', '"target_percent": Infinity, '),
    ):
        assert damaged != text
        path.write_text(damaged)
        with pytest.raises(ValueError, match=r"calibration\.json is not a calibration"):
            Calibration.load(path)


def test_official_run_names_are_settings() -> None:
    assert len(CCC_SETTINGS) == 27
    for target, difficulty in ((40, "easy"), (20, "medium"), (0, "hard")):
        for speed in (1000, 2000, 5000):
            for seed in (43, 44, 45):
                setting = ccc_setting(f"baseline_{target}_transition+speed_{speed}_seed_{seed}")
                assert setting == ccc_setting(f"ccc-{difficulty}-{speed}-{seed}")
                assert (setting["difficulty"], setting["images_per_step"], setting["seed"]) == (difficulty, speed, seed)
                assert setting["samples"] == (7_514_000 if speed == 2000 else 7_500_000)
    assert ccc_setting("baseline_20.0_transition+speed_1000_seed_43") == ccc_setting("ccc-medium")
    for wrong in ("ccc", "ccc-med", "ccc-medium-100", "baseline_30_transition+speed_1000_seed_43"):
        with pytest.raises(UnknownNameError, match="unknown setting"):
            ccc_setting(wrong)


def test_a_path_of_an_official_matrix_makes_a_walk() -> None:
    case = json.loads((HERE / "ccc_paths.json").read_text())["cases"][0]
    matrix = np.array(case["matrix"])
    points = official_path(matrix, 20)
    path = Transition("gaussian_noise", "motion_blur", tuple(points), tuple(float(matrix[point]) for point in points))
    walk = Walk(Calibration((path,), 20.0), 50_000)
    assert walk.expected(np.arange(0, 31_000, 1000)).mean() == pytest.approx(0.2, abs=0.002)
