"""Imported matrices: read without unpickling, and solved as in the official code."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from holdfast.calibration import calibration_of, import_matrices
from holdfast.calibration.matrices import own_settings
from holdfast.streams.walks.difficulty import POOLS

CASES = json.loads((Path(__file__).parents[1] / "streams" / "ccc_paths.json").read_text())["cases"]
NAMES = {"n1_gaussian_noise_n2_motion_blur": 0, "n1_contrast_n2_impulse_noise": 1, "n1_jpeg_n2_frost": 3}
OFFICIAL = {key: CASES[number]["matrix"] for key, number in NAMES.items()}


def test_npz_and_json_hold_the_same(tmp_path: Path) -> None:
    np.savez(tmp_path / "matrices.npz", **{key: np.array(values) for key, values in OFFICIAL.items()})
    (tmp_path / "matrices.json").write_text(json.dumps({**OFFICIAL, "zoom_blur+snow": CASES[2]["matrix"]}))
    from_npz, from_json = (import_matrices(tmp_path / f"matrices.{kind}") for kind in ("npz", "json"))
    assert set(from_json) - set(from_npz) == {("zoom_blur", "snow")}
    assert all(np.array_equal(from_json[pair], matrix) for pair, matrix in from_npz.items())
    assert ("jpeg_compression", "frost") in from_npz


def test_imported_matrices_give_the_official_paths(tmp_path: Path) -> None:
    (tmp_path / "matrices.json").write_text(json.dumps(OFFICIAL))
    matrices = import_matrices(tmp_path / "matrices.json")
    pairs = [["contrast", "impulse_noise"], ["jpeg", "frost"]]
    for difficulty, target in (("easy", "40"), ("medium", "20"), ("hard", "0")):
        calibration = calibration_of(matrices, difficulty=difficulty, pairs=pairs)
        for path, case in zip(calibration.transitions, (CASES[1], CASES[3]), strict=True):
            assert path.points == tuple(tuple(point) for point in case["paths"][target])
            assert path.expected_percent == tuple(case["matrix"][i][j] for i, j in path.points)
            assert len(path.measured) == 441
    assert calibration.storage_jpeg_quality == 85


def test_the_official_order_runs_through_the_matrices() -> None:
    matrix = np.array(CASES[0]["matrix"])
    pool = POOLS["hard"]
    matrices = {(first, second): matrix for first in pool for second in pool if first != second}
    calibration = calibration_of(matrices, difficulty="hard", steps=300)
    assert len(calibration.transitions) == 8  # 41 steps each
    assert [path.first for path in calibration.transitions[:3]] == ["gaussian_noise", "impulse_noise", "shot_noise"]
    del matrices["impulse_noise", "shot_noise"]
    with pytest.raises(ValueError, match=r"no matrix for impulse_noise\+shot_noise"):
        calibration_of(matrices, difficulty="hard")


@pytest.mark.parametrize(
    ("option", "named"),
    [
        ({}, []),
        ({"path_rule": "squared"}, ["path_rule"]),
        ({"crop": None}, ["crop"]),
        ({"storage_jpeg_quality": None}, ["storage_jpeg_quality"]),
        ({"family": "32"}, ["family"]),
        ({"pool": POOLS["hard"][:3]}, ["pairs"]),
        ({"pairs": [["gaussian_noise", "contrast"]]}, ["pairs"]),
        ({"seed": 44}, ["pairs"]),
    ],
)
def test_a_walk_says_which_of_its_settings_are_not_the_official_ones(option: dict[str, Any], named: list[str]) -> None:
    matrix = np.array(CASES[0]["matrix"])
    matrices = {(first, second): matrix for first in POOLS["hard"] for second in POOLS["hard"] if first != second}
    calibration = calibration_of(matrices, **{"difficulty": "hard", "pairs": 5, **option})
    assert own_settings(calibration, 43) == named


def test_nothing_is_unpickled_and_nothing_else_is_taken(tmp_path: Path) -> None:
    fired = tmp_path / "fired"

    class Trap:
        def __reduce__(self) -> tuple[object, tuple[Path]]:
            return Path.touch, (fired,)

    (tmp_path / "matrices.pickle").write_bytes(pickle.dumps(Trap()))
    with pytest.raises(ValueError, match="pickles are never read"):
        import_matrices(tmp_path / "matrices.pickle")
    np.savez(tmp_path / "trap.npz", allow_pickle=True, n1_fog_n2_snow=np.array([Trap()], object))
    with pytest.raises(ValueError, match="allow_pickle"):
        import_matrices(tmp_path / "trap.npz")
    assert not fired.exists()
    flat = [[50.0] * 21] * 21
    for content, problem in (
        ([], "no matrices"),
        ({"n1_fog": flat}, "a pair must be two different corruptions"),
        ({"n1_fogg_n2_snow": flat}, "unknown corruption 'fogg'"),
        ({"fog+snow": flat[:20]}, r"\(20, 21\)"),
        ({"fog+snow": [[0.5] * 21] * 21}, "accuracies must be in percent"),
        ({"fog+snow": [[500.0] * 21] * 21}, "accuracies must be in percent"),
    ):
        (tmp_path / "wrong.json").write_text(json.dumps(content))
        with pytest.raises(ValueError, match=problem):
            import_matrices(tmp_path / "wrong.json")
