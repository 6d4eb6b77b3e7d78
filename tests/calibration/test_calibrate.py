"""Calibration: the target holds on new images, whatever the cache contains."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from holdfast.benchmark.executors import EXECUTORS, Lost
from holdfast.calibration import Calibration, CalibrationProgress, CalibrationSettings, calibrate
from holdfast.calibration.meter import Meter
from holdfast.calibration.pairs import margin_percent_of, names_of
from holdfast.data import Crop, Dataset, Digits, InMemoryImages
from holdfast.machine.folders import held, made
from holdfast.models import digits_resnet
from holdfast.registry import UnknownNameError
from holdfast.streams import ccc

POOL = ["motion_blur", "contrast", "elastic", "jpeg"]


@pytest.fixture
def options(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Return options with one cache for all tests of this file, which repeat many measurements."""
    cache = tmp_path_factory.getbasetemp() / "calibrations"
    # The nearest mean image does not tolerate shifts.
    return {"pool": POOL, "pairs": 2, "pictures": 30, "cache": cache, "crop": "none"}


@pytest.fixture
def uncached(options: dict[str, Any], tmp_path: Path) -> dict[str, Any]:
    """Return the same options with an empty cache."""
    return {**options, "cache": tmp_path}


def calibrated(model: nn.Module, data: Dataset, **given: Any) -> Calibration:
    """Calibrate with settings and with what carries them out, both by keyword."""
    around = {name: given.pop(name) for name in ("cache", "progress", "execute") if name in given}
    return calibrate(model, data, CalibrationSettings(**given), **around)


def accuracies(model: nn.Module, data: Dataset, calibration: Calibration, images_per_step: int) -> tuple[float, ...]:
    """Return measured accuracy, expected accuracy and the 95 % margin over images, in percent."""
    stream = ccc(data, calibration=calibration, images_per_step=images_per_step)
    with torch.inference_mode():
        right = np.concatenate([model(batch.inputs).argmax(1).numpy() == batch.labels for batch in stream])
    samples = stream.plan.picks(0, len(right)).samples
    visits = np.bincount(samples, minlength=len(data.labels))
    shares = (np.bincount(samples, right, minlength=len(data.labels)) / np.maximum(1, visits))[visits > 0]
    expected = stream.plan.expected(np.arange(len(right)))  # type: ignore[attr-defined]
    return 100 * right.mean(), 100 * expected.mean(), 196 * shares.std() / np.sqrt(len(shares))


def halves(data: InMemoryImages) -> list[InMemoryImages]:
    return [
        InMemoryImages(data.images[start::2], data.labels[start::2], class_names=data.class_names, flips=False)
        for start in (0, 1)
    ]


@pytest.mark.slow
def test_a_small_walk_holds_its_target_on_new_images(test_digits: Digits, tmp_path: Path) -> None:
    """One transition on 50 images, with a mean known to about ± 7 points; the slow test has ± 3."""
    known, fresh = halves(test_digits)
    model = digits_resnet()
    pairs = [["gaussian_noise", "impulse_noise"]]
    calibration = calibrated(model, known, pairs=pairs, pictures=50, refinements=1, cache=tmp_path)
    (path,) = calibration.transitions
    assert path.mean_percent == pytest.approx(calibration.target_percent, abs=1)
    assert path.margin_percent is not None
    assert 2 < path.margin_percent < 9
    accuracy, expected, margin = accuracies(model, fresh, calibration, images_per_step=16)
    assert expected == pytest.approx(path.mean_percent)
    assert abs(accuracy - calibration.target_percent) < path.margin_percent + margin


@pytest.mark.slow
def test_a_scaled_ccc_medium_holds_its_target_on_new_images(test_digits: Digits, tmp_path: Path) -> None:
    """Three transitions, calibrated on one half of the test digits and streamed on the other, within 3 points."""
    known, fresh = halves(test_digits)
    model, began = digits_resnet(), time.process_time()
    calibration = calibrated(model, known, difficulty="medium", pairs=3, pictures=300, cache=tmp_path)
    accuracy, expected, margin = accuracies(model, fresh, calibration, images_per_step=128)
    seconds = time.process_time() - began
    print(
        f"target {calibration.target_percent:.1f} %, expected {expected:.1f} %, measured {accuracy:.1f} % "
        f"± {margin:.1f} (95 %), in {seconds:.0f} s of one core"
    )
    assert abs(accuracy - calibration.target_percent) < 3


def test_the_result_does_not_depend_on_the_cache(
    model: nn.Module, few: InMemoryImages, options: dict[str, Any], uncached: dict[str, Any]
) -> None:
    options, uncached = ({**given, "pictures": 12} for given in (options, uncached))
    shared = calibrated(model, few, **options)
    seen: list[CalibrationProgress] = []
    calibrated(model, few, **{**uncached, "difficulty": "easy"}, progress=seen.append)
    calibrated(model, few, **{**uncached, "pictures": 8, "path_rule": "squared"})
    assert calibrated(model, few, **uncached) == shared
    again: list[CalibrationProgress] = []
    assert calibrated(model, few, **uncached, progress=again.append) == shared
    assert seen[-1].done > 400
    assert seen[-1].saved > 0
    assert again == []
    assert Calibration.from_json(shared.to_json()) == shared


def test_the_record_says_how_it_was_made(model: nn.Module, few: InMemoryImages, options: dict[str, Any]) -> None:
    calibration = calibrated(model, few, **options, storage_jpeg_quality=85)
    assert calibration.difficulty == "medium"
    assert (calibration.family, calibration.storage_jpeg_quality) == ("224", 85)
    assert calibration.clean_percent is not None
    assert calibration.target_percent == pytest.approx(10 + 19.9 / 76 * (calibration.clean_percent - 10), abs=1e-3)
    assert "jpeg_compression" in calibration.left_out
    assert "above the limit of" in calibration.left_out["jpeg_compression"]
    assert calibration.data == few.digest
    first, second = calibration.transitions
    assert first.second == second.first
    assert first.pictures == 30
    matrix = np.array(first.matrix_percent)
    assert matrix[0, 0] == pytest.approx(calibration.clean_percent)
    assert list(first.expected_percent) == [matrix[point] for point in first.points]
    assert {(0, 0), (4, 8), (20, 20)} <= set(first.measured) < set(np.ndindex(21, 21))
    # Points on the axis that both pairs share are measured once.
    assert np.array_equal(matrix[0, ::4], np.array(second.matrix_percent)[::4, 0])


def test_accuracies_are_those_of_stored_images(model: nn.Module, few: InMemoryImages, options: dict[str, Any]) -> None:
    """The refusal of a target out of reach names the accuracy on clean images, which a storage of quality 1 lowers."""
    refusals = []
    for quality in (None, 1):
        with pytest.raises(ValueError, match="clean") as refusal:
            calibrated(model, few, **{**options, "target_percent": 100.0, "storage_jpeg_quality": quality})
        refusals.append(str(refusal.value))
    assert refusals[0] != refusals[1]


def test_refinement_measures_the_path(model: nn.Module, few: InMemoryImages, options: dict[str, Any]) -> None:
    for refinements, measured in ((0, False), (5, True)):
        (path, *_) = calibrated(model, few, **options, refinements=refinements).transitions
        assert (set(path.points) <= set(path.measured)) is measured
        if not measured:
            assert len(path.measured) == 36
    named = {**options, "pictures": 12, "pairs": [["contrast", "brightness"]]}
    (full,) = calibrated(model, few, **named, coarse=False).transitions
    assert len(full.measured) == 441
    assert full.matrix_percent != calibrated(model, few, **named).transitions[0].matrix_percent


def test_images_are_added_until_the_mean_is_known(
    model: nn.Module, few: InMemoryImages, uncached: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.calibration.meter.ROUND", 10)

    def pictures(margin_percent: float) -> int | None:
        return calibrated(model, few, **uncached, margin_percent=margin_percent).transitions[0].pictures

    assert pictures(50.0) == 10
    assert pictures(0.1) == pictures(0.0) == 30


def test_the_margin_is_that_of_the_path_alone(
    model: nn.Module, few: InMemoryImages, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    points_measured = []
    monkeypatch.setattr(
        "holdfast.calibration.pairs.margin_percent_of", lambda outcomes, _: points_measured.append(len(outcomes)) or 0.0
    )
    paths = calibrated(model, few, **options).transitions
    assert points_measured == [len(set(path.points) & set(path.measured)) for path in paths]
    assert all(points < len(path.measured) for points, path in zip(points_measured, paths, strict=True))


def test_margins_are_those_of_images_within_classes() -> None:
    rng = np.random.default_rng(0)
    labels = np.repeat([0, 1], 500)
    easy = rng.random((3000, 1000)) < np.where(labels, 0.9, 0.1)
    one = easy[:1]
    assert margin_percent_of(one, labels) == pytest.approx(196 * np.sqrt(0.09 / 1000), rel=0.1)
    assert margin_percent_of(np.repeat(one, 30, axis=0), labels) == pytest.approx(margin_percent_of(one, labels))
    assert margin_percent_of(easy, labels) < 0.1 * margin_percent_of(one, labels)
    # Two degrees of freedom are left of four images in two classes.
    assert margin_percent_of(np.array([[1, 0, 1, 1]], bool), np.array([0, 0, 1, 1])) == pytest.approx(49)
    # One class per image: the variation within classes is unknown.
    assert margin_percent_of(one, np.arange(1000)) == pytest.approx(196 * np.sqrt(0.25 / 1000), rel=0.1)


def test_a_walk_is_as_long_as_it_has_to_be(model: nn.Module, few: InMemoryImages, options: dict[str, Any]) -> None:
    del options["pairs"]
    long = calibrated(model, few, **options, steps=90)
    assert long.steps >= 90 > long.steps - len(long.transitions[-1].points)
    assert len(calibrated(model, few, **options).transitions) == 3
    assert long.transitions[:3] == calibrated(model, few, **options).transitions


def test_connected_walks_do_not_jump(model: nn.Module, few: InMemoryImages, options: dict[str, Any]) -> None:
    first, second = calibrated(model, few, **options, path_rule="connected").transitions
    assert second.points[0] == (first.points[-1][1], 0)


QUICK: dict[str, Any] = {"pool": POOL[:3], "pictures": 12, "refinements": 0, "crop": "none", "target_percent": 40.0}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("executor", "wanted"), [("serial", {"steps": 60}), ("processes", {"pairs": [["contrast", "motion_blur"]]})]
)
def test_pairs_are_jobs_of_an_executor(
    executor: str, wanted: dict[str, Any], model: nn.Module, few: InMemoryImages, tmp_path: Path
) -> None:
    done: list[CalibrationProgress] = []

    def execute(work: Callable[[Any], Any], pairs: Sequence[Any]) -> Iterator[Any]:
        for result in EXECUTORS[executor].with_workers(2)(work, pairs):
            done.append(result)
            yield result

    reports: list[CalibrationProgress] = []
    options = {**QUICK, **wanted}
    by_jobs = calibrated(model, few, **options, cache=tmp_path / "jobs", execute=execute, progress=reports.append)
    assert {job.pair for job in done} <= {f"{path.first}+{path.second}" for path in by_jobs.transitions}
    assert min(job.done for job in done) > 100
    for job in done:  # nothing of it was measured here
        assert [progress.pair for progress in reports].count(job.pair) == 1
    assert by_jobs == calibrated(model, few, **options, cache=tmp_path / "here")


def test_a_pair_whose_job_fails_is_measured_in_its_turn(model: nn.Module, few: InMemoryImages, tmp_path: Path) -> None:
    def lose(_work: Callable[[Any], Any], pairs: Sequence[Any]) -> list[Lost]:
        return [Lost(pair, "its worker died 3 times") for pair in pairs]

    actual, expected = (
        calibrated(model, few, **QUICK, pairs=1, cache=tmp_path / name, execute=execute)
        for name, execute in (("jobs", lose), ("here", None))
    )
    assert actual == expected


def test_targets_in_percent_and_pairs_by_name(model: nn.Module, few: InMemoryImages, options: dict[str, Any]) -> None:
    named = {**options, "pairs": [["contrast", "jpeg"], ["jpeg", "motion_blur"]]}
    calibration = calibrated(model, few, **named, target_percent=60)
    assert [(path.first, path.second) for path in calibration.transitions] == [
        ("contrast", "jpeg_compression"),
        ("jpeg_compression", "motion_blur"),
    ]
    assert calibration.target_percent == 60
    assert calibration.difficulty is None
    assert calibration.left_out == {}
    assert calibration.transitions[0].mean_percent == pytest.approx(60, abs=5)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"target_percent": 99.0}, "too low for the target of 99.0 %"),
        ({"pool": ["jpeg", "contrast"]}, r"two corruptions that lower the accuracy to .*, got \['contrast'\]"),
        ({"pool": ["saturate", "contrast"]}, "whole severities only"),
        ({"pool": ["contrst"]}, "did you mean 'contrast'"),
        ({"difficulty": "mittel"}, "unknown difficulty 'mittel'"),
        ({"pairs": [["contrast"]]}, "a pair must be two different corruptions"),
        ({"pairs": ["contrast"]}, "a pair must be two different corruptions"),
        ({"pairs": [["jpeg", "jpeg"]]}, "a pair must be two different corruptions"),
        ({"path_rule": "best"}, "path_rule must be one of official, squared, connected"),
        ({"pictures": 1}, "pictures=2 or more"),
        ({"pairs": 0}, "at least 1 pair and step, got 30, 0"),
    ],
)
def test_mistakes_are_reported(
    model: nn.Module, few: InMemoryImages, options: dict[str, Any], changes: dict[str, Any], problem: str
) -> None:
    with pytest.raises((ValueError, UnknownNameError), match=problem):
        calibrated(model, few, **{**options, **changes})


def test_a_pair_that_another_process_measures_is_left_to_it(
    model: nn.Module, few: InMemoryImages, options: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pairs = [["contrast", "jpeg"], ["jpeg", "contrast"], ["brightness", "contrast"]]
    named = {**options, "pairs": pairs, "target_percent": 25.0, "refinements": 0}
    alone = calibrated(model, few, **{**named, "cache": tmp_path / "alone"})
    turn_to, order, let_go = Meter.turn_to, [], threading.Event()
    holding: list[Any] = []

    def noted(meter: Meter, pair: tuple[str, str]) -> None:
        order.append(pair)
        turn_to(meter, pair)
        if len(order) == 2:
            let_go.set()

    def hold(meter: Meter) -> None:  # flock is between open files, so threads stand for processes
        with held(made(meter.store.folder / "contrast+jpeg_compression")):
            holding.append("held")
            let_go.wait(30)

    percent = Meter.percent

    def started(meter: Meter, treatment: Any) -> float:
        if not holding:
            threading.Thread(target=hold, args=(meter,)).start()
            while not holding:
                time.sleep(0.01)
        return percent(meter, treatment)

    monkeypatch.setattr(Meter, "turn_to", noted)
    monkeypatch.setattr(Meter, "percent", started)
    together = calibrated(model, few, **{**named, "cache": tmp_path / "shared"})
    full = [(first, second) for first, second in map(names_of, pairs)]
    assert order[:2] == full[1:]  # measured while the first pair is in use
    assert order[2:] == full
    assert together == alone


def test_measurements_of_another_process_are_found(model: nn.Module, few: InMemoryImages, tmp_path: Path) -> None:
    settings = CalibrationSettings(pictures=30, crop="none")
    mine, other = (Meter(model, few, settings, cache=tmp_path, tell=lambda _: None) for _ in range(2))
    mine.percent((("contrast", 4),))
    stronger = other.percent((("contrast", 8),))
    mine.forget_reading()
    assert mine.percent((("contrast", 8),)) == stronger
    assert mine.done == other.done == 30  # each measured one of the two


def test_crops_are_part_of_measurement_file_and_stream(
    model: nn.Module, few: InMemoryImages, options: dict[str, Any], tmp_path: Path
) -> None:
    named = {**options, "pairs": [["contrast", "jpeg"]], "target_percent": 25.0, "refinements": 0}
    still, moving = (calibrated(model, few, **{**named, "crop": crop}) for crop in ("none", "shifted"))
    assert (still.crop, moving.crop) == (None, Crop("shifted", flip=True))
    assert still.clean_percent != moving.clean_percent  # measured on other inputs
    assert Calibration.load(moving.save(tmp_path / "moving.json")) == moving
    assert '"crop"' not in still.to_json()
    streams = [ccc(few, calibration=calibration, images_per_step=5) for calibration in (still, moving)]
    assert [stream.rendering.crop for stream in streams] == [still.crop, moving.crop]
    assert "crop" in streams[1].spec
    with pytest.raises(ValueError, match="crop cannot be combined with calibration="):
        ccc(few, calibration=moving, crop="none")
