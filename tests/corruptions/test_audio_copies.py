"""Corrupted copies of audio files have the same bytes with any number of workers; the contact sheet of spectrograms."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from scipy.io import wavfile
from typer.testing import CliRunner

from holdfast.audio import read_audio, store_as_pcm16
from holdfast.cli.commands import app
from holdfast.corruptions import CORRUPTIONS, audio_sheet, copies, corrupt_files
from holdfast.corruptions.audio.criteria import criterion_corruption
from holdfast.randomness import seeded_rng

soundfile = pytest.importorskip("soundfile")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    for path, rate in (("a.wav", 16_000), ("cats/b.wav", 8_000), ("cats/c.FLAC", 16_000)):
        target = tmp_path / "in" / path
        target.parent.mkdir(parents=True, exist_ok=True)
        soundfile.write(target, rng.uniform(-0.3, 0.3, (4_000, 2)), rate)
    (tmp_path / "in" / "notes.txt").write_text("not a sound")
    return tmp_path / "in"


def contents(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_copies_are_the_corruption_of_the_mono_sound(folder: Path, tmp_path: Path) -> None:
    written = corrupt_files([folder], "white_noise", 3, tmp_path / "out", seed=7)
    assert [path.relative_to(tmp_path / "out").as_posix() for path in written] == ["a.wav", "cats/b.wav", "cats/c.flac"]
    rate, values = wavfile.read(written[1])
    assert (rate, values.dtype, values.shape) == (8_000, np.int16, (4_000,))
    clean = read_audio(folder / "cats/b.wav")
    expected = CORRUPTIONS["white_noise"](clean, 3, seeded_rng(7, "corrupt files/cats/b.wav"), sample_rate=8_000)
    assert np.array_equal(read_audio(written[1]), store_as_pcm16(expected))
    protocol, *records = map(json.loads, (tmp_path / "out" / "manifest.jsonl").read_text().splitlines())
    assert (protocol["corruption"], protocol["severity"], protocol["seed"]) == ("white_noise", 3, 7)
    assert [record["source"] for record in records] == ["a.wav", "cats/b.wav", "cats/c.FLAC"]


@pytest.mark.slow
def test_any_number_of_workers_writes_the_same_bytes(folder: Path, tmp_path: Path) -> None:
    for workers in (1, 2):
        corrupt_files([folder], "pitch_shift", 3, tmp_path / str(workers), audio_format="flac", workers=workers)
    assert contents(tmp_path / "1") == contents(tmp_path / "2")
    assert set(contents(tmp_path / "1")) == {"a.flac", "cats/b.flac", "cats/c.flac", "manifest.jsonl"}


def test_a_stopped_run_goes_on_and_ends_alike(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    corrupt_files([folder], "white_noise", 3, tmp_path / "whole")
    corrupt_files([folder], "white_noise", 3, tmp_path / "out")
    manifest = tmp_path / "out" / "manifest.jsonl"
    lines = manifest.read_text().splitlines(keepends=True)
    manifest.write_text("".join(lines[:3]) + lines[3][:20])  # stopped in the middle of the last line
    (tmp_path / "out" / "a.wav").write_bytes(b"damaged")
    made, make = [], copies.copy_outcome
    monkeypatch.setattr(copies, "copy_outcome", lambda *task: made.append(task[-1].relative) or make(*task))
    corrupt_files([folder], "white_noise", 3, tmp_path / "out")
    assert made == ["a.wav", "cats/c.FLAC"]
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")
    corrupt_files([folder], "white_noise", 3, tmp_path / "out")
    assert len(made) == 2
    with pytest.raises(ValueError, match="holds copies with severity 3, not 4; choose another folder"):
        corrupt_files([folder], "white_noise", 4, tmp_path / "out")


def test_sounds_can_be_brought_to_one_rate(folder: Path, tmp_path: Path) -> None:
    for path in corrupt_files([folder], "time_stretch", 2, tmp_path / "out", sample_rate=16_000, audio_format="wav"):
        assert wavfile.read(path)[0] == 16_000


def test_what_is_no_sound_is_named_after_the_others_are_written(folder: Path, tmp_path: Path) -> None:
    (folder / "torn.wav").write_bytes(b"RIFF")
    wavfile.write(folder / "silent.wav", 16_000, np.zeros(4_000, np.int16))
    wavfile.write(folder / "nan.wav", 16_000, np.full(4_000, np.nan, np.float32))
    wavfile.write(folder / "empty.wav", 16_000, np.zeros(0, np.int16))
    wavfile.write(folder / "short.wav", 16_000, np.ones(9, np.int16))
    with pytest.raises(
        ValueError, match=r"5 of 8 files .*empty\.wav.*nan\.wav.*NaN.*short\.wav.*too few.*silent\.wav.*torn\.wav"
    ):
        corrupt_files([folder], "time_stretch", 3, tmp_path / "out")
    assert len(list((tmp_path / "out").rglob("*.wav"))) == 2


def test_a_corruption_for_images_is_refused_by_name(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"contrast corrupts image files, and .*a\.wav is not one; try white_noise"):
        corrupt_files([folder / "a.wav"], "contrast", 3, tmp_path / "out")
    with pytest.raises(ValueError, match="has no image files"):
        corrupt_files([folder], "contrast", 3, tmp_path / "out")
    with pytest.raises(ValueError, match=r"severity must be between 0 .* and 5 .*, got 6"):
        corrupt_files([folder], "white_noise", 6, tmp_path / "out")


def test_the_sheet_shows_what_noise_does() -> None:
    tone = np.sin(2 * np.pi * 1_000 * np.arange(16_000) / 16_000).astype(np.float32)
    sheet = audio_sheet(tone, ["white_noise", "time_stretch"], [0, 5])
    pixels = np.asarray(sheet.convert("L"), np.float64)
    width, height = 200, 112
    cells = [
        [
            pixels[30 + row * 120 : 30 + row * 120 + height, sheet.width - (2 - column) * 208 :][:, :width]
            for column in (0, 1)
        ]
        for row in (0, 1)
    ]
    assert np.array_equal(cells[0][0], cells[1][0])
    assert cells[0][0].mean() < 30 < 60 < cells[0][1].mean()  # a line in the dark, then noise everywhere
    loudest = cells[0][0].mean(1).argmax()
    assert loudest == pytest.approx(height * (1 - 1_000 / 8_000), abs=2)


def test_criteria_take_the_rules_of_a_data_set_and_your_own_noise(folder: Path, tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    for name in ("running_tap", "exercise_bike", "white_noise", "pink_noise"):
        path = tmp_path / "corpus" / "_background_noise_" / f"{name}.wav"
        path.parent.mkdir(parents=True, exist_ok=True)
        wavfile.write(path, 16_000, (3000 * rng.standard_normal(32_000)).astype(np.int16))
    options = ["corrupt", str(folder), "-c", "ENSC-L1", "--severity", "1", "--dataset", "sc2", "--format", "wav"]
    written = {}
    for name, extra in (("own", ["--noise", str(tmp_path / "corpus")]), ("embedded", [])):
        out = tmp_path / name / "ENSC" / "L1"
        result = CliRunner().invoke(app, [*options, *extra, "--out", str(out)])
        assert result.exit_code == 0, result.exception
        written[name] = contents(out)
    assert set(written["own"]) == {"a.wav", "cats/b.wav", "cats/c.wav", "manifest.jsonl"}
    assert written["own"]["a.wav"] != written["embedded"]["a.wav"]
    first = json.loads(written["own"]["manifest.jsonl"].splitlines()[0])
    assert first["corruption"] == "dhauds/sc2/ENSC-L1"
    two = corrupt_files([folder], criterion_corruption("WHN-L1", "sc2"), 1, tmp_path / "two", workers=2)
    one = corrupt_files([folder], criterion_corruption("WHN-L1", "sc2"), 1, tmp_path / "one")
    assert [path.read_bytes() for path in one] == [path.read_bytes() for path in two]
