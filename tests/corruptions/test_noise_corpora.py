"""Noise on disk, in the layouts of the corpora, and the embedded noise."""

from __future__ import annotations

import importlib.util
import io
import sys

import numpy as np
import pytest
from scipy.io import wavfile

from holdfast.corruptions.audio import (
    FileRecording,
    criterion_corruption,
    demand,
    environments,
    noise_from,
    qut_noise,
    recordings_in,
    speech_commands_background,
)
from holdfast.corruptions.audio.corpora import labelled_recordings
from holdfast.corruptions.audio.environments import ENVIRONMENTS
from holdfast.corruptions.audio.noise import cut_noise
from holdfast.corruptions.audio.procedural import SYNTHESISERS
from holdfast.randomness import seeded_rng


def write(path, sample_rate=16_000, values=None):
    path.parent.mkdir(parents=True, exist_ok=True)
    wavfile.write(path, sample_rate, np.arange(400, dtype=np.int16) if values is None else values)


def test_qut_noise_is_chosen_by_type(tmp_path):
    for name in ("CAFE-CAFE-1", "HOME-KITCHEN-1", "HOME-KITCHEN-2", "STREET-CITY-1"):
        write(tmp_path / "QUT-NOISE" / "QUT-NOISE" / f"{name}.wav", 48_000)
    recordings = qut_noise(tmp_path, ["HOME", "STREET"])
    assert [recording.path.stem for recording in recordings] == ["HOME-KITCHEN-1", "HOME-KITCHEN-2", "STREET-CITY-1"]
    with pytest.raises(ValueError, match=r"no REVERB in .*; download QUT-NOISE"):
        qut_noise(tmp_path, ["REVERB"])


def test_every_channel_of_demand_is_a_recording(tmp_path):
    for environment in ("NFIELD", "TCAR", "OOFFICE"):
        for channel in range(1, 4):
            write(tmp_path / environment / f"ch{channel:02}.wav")
    recordings = demand(tmp_path, ["TCAR", "NFIELD"])
    assert [recording.name for recording in recordings][2:4] == ["NFIELD/ch03.wav", "TCAR/ch01.wav"]
    assert len(recordings) == 6


@pytest.mark.parametrize("above", ["", "speech_commands_v0.02/speech_commands_v0.02/"])
def test_backgrounds_are_found_beside_the_words(tmp_path, above):
    write(tmp_path / f"{above}yes/white_noise.wav")
    for name in ("running_tap", "white_noise", "pink_noise"):
        write(tmp_path / f"{above}_background_noise_/{name}.wav")
    recordings = speech_commands_background(tmp_path, ["running_tap", "white_noise"])
    assert [recording.name for recording in recordings] == [
        "_background_noise_/running_tap.wav",
        "_background_noise_/white_noise.wav",
    ]


def test_any_folder_will_do_and_says_what_it_is_made_of(tmp_path):
    for name in ("b/two.WAV", "a/one.wav"):
        write(tmp_path / name, values=np.full(4_000, 1000, np.int16))
    mine = noise_from(recordings_in(tmp_path), name="mine")
    assert mine.source.startswith("2 recordings of digest ")
    clip = np.full(1_000, 0.1, np.float32)
    assert mine(clip, 5, seeded_rng(0, "x")) == pytest.approx(np.full(1_000, 0.2), abs=1e-6)
    with pytest.raises(ValueError, match="no recordings in"):
        recordings_in(tmp_path.joinpath("empty").mkdir() or tmp_path / "empty")
    with pytest.raises(ValueError, match="there is no folder"):
        recordings_in(tmp_path / "absent")


@pytest.fixture
def noises_in_parquet(tmp_path):
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    stored = []
    for level in (1, 2, 3):
        content = io.BytesIO()
        wavfile.write(content, 16_000, np.full(900, 1000 * level, np.int16))
        stored.append({"bytes": content.getvalue(), "path": f"{level}.wav" if level < 3 else None})
    parquet.write_table(pyarrow.table({"audio": stored, "category": ["rain", "wind", "rain"]}), tmp_path / "n.parquet")
    return tmp_path / "n.parquet"


def test_parquet_files_hold_recordings_by_category(noises_in_parquet):
    recordings = labelled_recordings(noises_in_parquet, ["rain"])
    assert [recording.name for recording in recordings] == ["rain/1.wav", "rain/row 2"]
    assert [round(32768 * float(recording.cut(100, 1, 16_000)[0])) for recording in recordings] == [1000, 3000]
    with pytest.raises(ValueError, match=r"no snow in .*; choose from rain, wind"):
        labelled_recordings(noises_in_parquet, ["rain", "snow"])


def test_a_criterion_takes_recordings_by_labels_of_ones_own(noises_in_parquet):
    noise = {"recordings": noises_in_parquet, "END1": {"L1": ["wind"], "L2": ["wind", "rain"]}}
    sources = [criterion_corruption(name, noise=noise).source for name in ("END1-L1", "END1-L2", "END2-L1")]
    assert [source.split(" of")[0] for source in sources] == ["1 recordings", "3 recordings", "embedded noise"]
    clips = np.full((1, 800), 0.1, np.float32)
    changed = criterion_corruption("END1-L1", noise=noise).batch(clips, 1, [seeded_rng(0, "x")])[0]
    assert changed.std() < 1e-6  # a constant stays one
    assert 5 <= -20 * np.log10(changed[0] / 0.1 - 1) <= 6


@pytest.mark.parametrize(
    ("noise", "message"),
    [
        ({"END": "folder"}, "noise has no 'END'; did you mean 'END2'"),
        ({"recordings": "folder"}, "recordings but no labels; add the labels of a family"),
        ({"ENQ": {"L1": ["wind"]}}, "but no recordings; add recordings"),
        ({"recordings": "folder", "ENQ": {"L2": ["wind"]}}, "no labels for ENQ at L1; add L1"),
    ],
)
def test_noise_that_cannot_be_found_says_what_is_missing(noise, message):
    with pytest.raises(ValueError, match=message):
        criterion_corruption("ENQ-L1", noise=noise)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (np.array([[16384, 0], [-32768, 0]], np.int16), [0.25, -0.5]),
        (np.array([192, 0], np.uint8), [0.5, -1]),
        (np.array([2**30, -(2**31)], np.int32), [0.5, -1]),
        (np.array([0.5, -1], np.float32), [0.5, -1]),
        (np.array([0.5, -1], np.float64), [0.5, -1]),
    ],
)
def test_all_kinds_of_wav_are_read_as_mono_between_minus_one_and_one(tmp_path, values, expected):
    write(tmp_path / "a.wav", values=values)
    recording = FileRecording(tmp_path / "a.wav")
    assert recording.samples(16_000) == 2
    assert recording.cut(0, 2, 16_000).tolist() == expected
    assert recording.cut(1, 1, 16_000).tolist() == expected[1:]


def test_24_bits_are_read(tmp_path):
    header = b"RIFF" + (36 + 6).to_bytes(4, "little") + b"WAVEfmt " + (16).to_bytes(4, "little")
    fields = (1, 2), (1, 2), (8_000, 4), (24_000, 4), (3, 2), (24, 2)
    header += b"".join(value.to_bytes(size, "little") for value, size in fields) + b"data" + (6).to_bytes(4, "little")
    (tmp_path / "a.wav").write_bytes(
        header + (2**22).to_bytes(3, "little") + (-(2**23)).to_bytes(3, "little", signed=True)
    )
    assert FileRecording(tmp_path / "a.wav").cut(0, 2, 8_000).tolist() == [0.5, -1]


def test_recordings_are_resampled_where_they_are_cut(tmp_path):
    pytest.importorskip("soxr", reason="resampling: pip install 'holdfast[audio]'")
    time = np.arange(48_000) / 48_000
    stereo = np.stack([np.sin(2 * np.pi * 440 * time), np.zeros(48_000)], axis=1)
    write(tmp_path / "a.wav", 48_000, np.int16(32767 * stereo))
    recording = FileRecording(tmp_path / "a.wav")
    for rate in (16_000, 44_100):
        assert recording.samples(rate) == rate
        cut = recording.cut(rate // 2, rate // 4, rate)
        expected = 0.5 * np.sin(2 * np.pi * 440 * (0.5 + np.arange(rate // 4) / rate))
        assert cut[100:-100] == pytest.approx(expected[100:-100], abs=2e-3)
        assert len(recording.cut(rate - 7, 7, rate)) == 7


def test_unreadable_recordings_are_named(tmp_path):
    (tmp_path / "a.wav").write_bytes(b"RIFF nothing")
    with pytest.raises(ValueError, match=r"a\.wav is not a readable WAV file"):
        FileRecording(tmp_path / "a.wav").samples(16_000)
    write(tmp_path / "b.wav", values=np.zeros(0, np.int16))
    with pytest.raises(ValueError, match=r"b\.wav is (empty|not a readable)"):
        FileRecording(tmp_path / "b.wav").samples(16_000)


def test_without_soundfile_flac_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "soundfile", None)
    with pytest.raises(ImportError, match=r'pip install "holdfast\[audio\]"'):
        FileRecording(tmp_path / "a.flac").samples(16_000)


@pytest.mark.skipif(importlib.util.find_spec("soundfile") is None, reason="soundfile is not installed")
def test_flac_is_read_where_it_is_cut(tmp_path):
    import soundfile

    values = np.arange(-500, 500, dtype=np.int16) * 32
    soundfile.write(tmp_path / "a.flac", values, 16_000)
    assert FileRecording(tmp_path / "a.flac").cut(300, 50, 16_000) == pytest.approx(values[300:350] / 32768)


def test_which_and_where_are_drawn(tmp_path):
    for level in (1, 2):
        write(tmp_path / f"{level}.wav", values=np.int16(1000 * level + np.arange(900)))
    recordings = recordings_in(tmp_path)
    firsts = {round(32768 * float(cut_noise(recordings, seeded_rng(0, "x", k), 899, 16_000)[0])) for k in range(40)}
    assert firsts == {1000, 1001, 2000, 2001}
    with pytest.raises(ValueError, match="shorter than a clip"):
        cut_noise(recordings, seeded_rng(0, "x"), 901, 16_000)


@pytest.mark.parametrize("name", SYNTHESISERS)
def test_sounds_are_audible_and_seeded(name):
    for rate in (8_000, 44_100):
        first, again, other = (SYNTHESISERS[name](np.random.default_rng(seed), 2 * rate, rate) for seed in (0, 0, 1))
        assert np.array_equal(first, again)
        assert not np.array_equal(first, other)
        assert np.isfinite(first).all()
        assert first.std() > 0


def test_environments_are_all_different_and_made_of_every_sound():
    assert {family: len(labels) for family, labels in ENVIRONMENTS.items()} == {
        "enq": 5,
        "end1": 6,
        "end2": 6,
        "ensc": 6,
        "training": 5,
    }
    mixtures = [mixture for labels in ENVIRONMENTS.values() for mixture in labels.values()]
    assert {name for mixture in mixtures for name in mixture} == set(SYNTHESISERS)
    assert len({str(mixture) for mixture in mixtures}) == 27  # NRIVER is in two families
    tap, dishes = (environments("ensc", [label])[0].cut(0, 8_000, 8_000) for label in ("running_tap", "pink_noise"))
    assert tap.std() == pytest.approx(0.1, rel=0.2)
    assert abs(np.corrcoef(tap, dishes)[0, 1]) < 0.1
