"""Audio runs: the same suites and files as for images."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from scipy.io import wavfile

from holdfast.benchmark import run
from holdfast.benchmark.suite import parse_suite

SUITE = """\
name: sounds
models: [{name: imported, label: tiny, target: "holdfast.models.tiny:tiny_amaut"}]
batch_size: 8
source: {name: sound_folder, folder: FOLDER, seconds: 0.1, samples: 8}
streams:
  - name: continual
    data: {name: sound_folder, folder: FOLDER, seconds: 0.1}
    corruptions: [white_noise, clean]
recipes: [dhauds, eata]
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    for number in range(12):
        path = tmp_path / "data" / f"class{number % 3}" / f"{number}.wav"
        path.parent.mkdir(parents=True, exist_ok=True)
        wavfile.write(path, 16_000, np.int16(rng.integers(-9000, 9000, (1_400, 2))))
    return tmp_path / "data"


@pytest.mark.parametrize("index", [0, 1])
def test_an_audio_run_has_the_files_of_any_run(index: int, folder: Path, tmp_path: Path) -> None:
    job = parse_suite(SUITE.replace("FOLDER", str(folder))).jobs()[index]
    done = run(job, tmp_path)
    manifest = json.loads((done / "manifest.json").read_text())
    assert manifest["protocol"]["preprocessing"] == "mono float32 in [-1, 1] at 16000 Hz"
    assert json.loads((done / "summary.json").read_text())["samples"] == 24
    rows = [json.loads(line) for line in (done / "rows.jsonl").read_text().splitlines()]
    assert [list(row["domains"]) for row in rows] == [["white_noise"], ["white_noise"], ["clean"], ["clean"]]
    assert all(row["skipped"] is None for row in rows)


@pytest.mark.parametrize("wrong", ["seconds: 0.2", "seconds: 0.2, sample_rate: 8000"])
def test_a_network_for_other_inputs_is_refused_before_the_run(wrong: str, folder: Path, tmp_path: Path) -> None:
    if "sample_rate" in wrong:
        pytest.importorskip("soxr", reason="resampling: pip install 'holdfast[audio]'")
    job = parse_suite(SUITE.replace("FOLDER", str(folder)).replace("seconds: 0.1", wrong)).jobs()[0]
    with pytest.raises(ValueError, match=r"the model takes audio \(1600,\) at 16000 Hz, but the stream has audio"):
        run(job, tmp_path)
