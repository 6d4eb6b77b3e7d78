"""CCC in a suite and on the command line: calibrated once for the model of each job."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from typer.testing import CliRunner

from holdfast.benchmark import SuiteError, run
from holdfast.benchmark.suite import parse_suite
from holdfast.cli import app
from holdfast.data import Digits
from holdfast.streams import Calibration, ccc_setting
from holdfast.streams.walks.difficulty import POOLS

SUITE = """\
name: walk
models: [digits_resnet]
batch_size: 16
seeds: [43]
streams:
  - {name: ccc, difficulty: medium, images_per_step: 4, pairs: [[gaussian_noise, contrast]], pictures: 12, data: digits}
recipes: [source, tent]
"""


@pytest.fixture(autouse=True)
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One cache for all tests of this file, like that of a user."""
    folder = tmp_path_factory.getbasetemp() / "cache"
    monkeypatch.setenv("HOLDFAST_CACHE", str(folder))
    return folder


def invoke(*words: str) -> str:
    result = CliRunner().invoke(app, list(words), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_a_suite_calibrates_for_its_model(tmp_path: Path, cache: Path) -> None:
    source, tent = parse_suite(SUITE).jobs()
    folder = run(source, tmp_path)
    kept = {path: path.stat().st_mtime_ns for path in cache.rglob("*.npz")}
    assert kept
    other = run(tent, tmp_path)
    assert {path: path.stat().st_mtime_ns for path in cache.rglob("*.npz")} == kept
    manifests = [json.loads((run_folder / "manifest.json").read_text()) for run_folder in (folder, other)]
    assert manifests[0]["protocol"]["stream"] == manifests[1]["protocol"]["stream"]
    plan = manifests[0]["stream"]["spec"]["plan"]
    assert plan["kind"] == "walk"
    assert plan["transitions"][0]["domain"] == "gaussian_noise+contrast"
    samples = json.loads((folder / "summary.json").read_text())["samples"]
    assert samples == 4 * len(plan["transitions"][0]["cells"]) == manifests[0]["stream"]["length"]


def test_the_options_of_a_walk_are_checked_before_anything_runs() -> None:
    with pytest.raises(SuiteError, match="no option 'dificulty'; did you mean 'difficulty'"):
        parse_suite(SUITE.replace("difficulty:", "dificulty:"))
    with pytest.raises(SuiteError, match="no option 'calibrate'; did you mean 'calibration'"):
        parse_suite(SUITE.replace("difficulty: medium", "calibrate: x"))
    setting = ccc_setting("ccc-medium")
    del setting["seed"]
    entry = json.dumps({"name": "ccc", "data": "digits", **setting})
    assert parse_suite(f"name: x\nmodels: [digits_resnet]\nrecipes: [source]\nstreams: [{entry}]").jobs()


@pytest.mark.slow
def test_calibrate_writes_a_file_that_streams_and_images_take(tmp_path: Path) -> None:
    words = ["calibrate", "--model", "digits_resnet", "--data", "{name: digits, split: validation}", "--pairs", "1"]
    words += ["--pictures", "10", "--difficulty", "hard", "--out", str(tmp_path)]
    printed = invoke(*words)
    path = tmp_path / "calibration.json"
    assert printed.strip().endswith(str(path))
    calibration = Calibration.load(path)
    assert f"{calibration.transitions[0].first} → " in printed
    assert (tmp_path / "transition_0.png").is_file()
    again: dict[str, Any] = json.loads(invoke(*words, "--json"))
    assert again == json.loads(path.read_text())
    gif = invoke("corrupt", "--walk", str(path), "--out", str(tmp_path / "walk"))
    with Image.open(gif.strip()) as animation:
        assert animation.n_frames == calibration.steps  # type: ignore[attr-defined]
    strip = invoke("corrupt", "--walk", str(path), "--out", str(tmp_path / "strip.png"))
    with Image.open(strip.strip()) as picture:
        assert picture.width > picture.height


@pytest.mark.slow
def test_runs_that_differ_in_the_seed_alone_share_a_protocol(tmp_path: Path) -> None:
    text = SUITE.replace("pairs: [[gaussian_noise, contrast]]", "pairs: 1, samples: 48").replace(
        "seeds: [43]", "seeds: [43, 44]"
    )
    first, second = [
        json.loads((run(job, tmp_path) / "manifest.json").read_text())
        for job in parse_suite(text).jobs()
        if job.recipe.name == "source"
    ]
    pairs = [manifest["stream"]["spec"]["plan"]["transitions"][0]["domain"] for manifest in (first, second)]
    assert pairs[0] != pairs[1]
    assert first["protocol"]["stream"] == second["protocol"]["stream"]


def test_the_manifest_says_who_calibrated_a_walk_and_on_what(tmp_path: Path) -> None:
    quick, _ = parse_suite(SUITE).jobs()
    whole, _ = parse_suite(SUITE.replace("pictures: 12", "pictures: 3, full_grid: true")).jobs()
    material = [json.loads((run(job, tmp_path) / "manifest.json").read_text())["material"] for job in (quick, whole)]
    assert [entry["calibration"]["imported"] for entry in material] == [False, False]
    assert material[0]["calibration"]["points"] < 441
    assert (material[1]["calibration"]["points"], material[1]["calibration"]["images"]) == (441, 3)
    assert material[0]["data"] == material[1]["data"]
    assert material[0]["data"]["samples"] == len(Digits("test").labels)


def test_matrices_make_a_walk_that_counts_as_imported(tmp_path: Path) -> None:
    case = json.loads((Path(__file__).parents[1] / "streams" / "ccc_paths.json").read_text())["cases"][0]
    pool = POOLS["hard"]
    matrices = {f"{first}+{second}": case["matrix"] for first in pool for second in pool if first != second}
    (tmp_path / "matrices.json").write_text(json.dumps(matrices))
    words = ["calibrate", "--matrices", str(tmp_path / "matrices.json"), "--difficulty", "hard", "--steps", "50"]
    path = Path(invoke(*words, "--out", str(tmp_path / "out")).strip())
    assert Calibration.load(path).storage_jpeg_quality == 85
    given = SUITE.replace("difficulty: medium, ", f"calibration: {path}, ").replace("pictures: 12, ", "samples: 32, ")
    given = given.replace("pairs: [[gaussian_noise, contrast]], ", "")
    manifest = json.loads((run(parse_suite(given).jobs()[0], tmp_path) / "manifest.json").read_text())
    assert manifest["material"]["calibration"] == {
        "imported": True,
        "own": [],  # no rule of the walk differs from CCC's
        "target_percent": 0.0,
        "images": None,
        "points": 441,
    }
