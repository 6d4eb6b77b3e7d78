"""Audio files are read as mono at the requested rate, or refused with their name."""

from __future__ import annotations

import importlib.util
import io
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.io import wavfile

from holdfast.audio import read_audio


def wav(values: np.ndarray, rate: int = 16_000) -> io.BytesIO:
    file = io.BytesIO()
    wavfile.write(file, rate, values)
    file.seek(0)
    return file


def test_channels_are_averaged_and_the_rate_is_made_to_fit() -> None:
    pytest.importorskip("soxr", reason="resampling: pip install 'holdfast[audio]'")
    time = np.arange(48_000) / 48_000
    stereo = np.float32(np.stack([np.sin(2 * np.pi * 440 * time), np.zeros(48_000)], axis=1))
    waveform = read_audio(wav(stereo, 48_000), 16_000)
    expected = 0.5 * np.sin(2 * np.pi * 440 * np.arange(16_000) / 16_000)
    assert waveform[100:-100] == pytest.approx(expected[100:-100], abs=2e-3)
    assert len(read_audio(wav(stereo, 48_000))) == 48_000


@pytest.mark.parametrize(
    ("file", "problem"),
    [
        (io.BytesIO(b"RIFF nothing"), "clip 7 is not a readable WAV file"),
        (io.BytesIO(b"RIFF"), "clip 7 is not a readable WAV file"),
        (io.BytesIO(wav(np.ones(9, np.int16)).getvalue()[:30]), "clip 7 is not a readable WAV file"),
        (wav(np.zeros(0, np.int16)), r"clip 7 is (empty|not a readable)"),
        (wav(np.zeros(900, np.int16)), "clip 7 is silent"),
        (wav(np.array([0.1, np.nan], np.float32)), "clip 7 holds NaN"),
        (io.BytesIO(wav(np.ones(900, np.int16)).getvalue()[:-200]), "clip 7 is truncated: 1800 .* 1600 found"),
        (wav(np.array([0.1, 1e30], np.float32)), r"clip 7 has amplitudes of up to 1e\+30"),
        (wav(np.ones(9, np.int16), 0), "clip 7 has a sample rate of 0 Hz"),
    ],
)
def test_what_is_no_sound_is_refused_by_its_name(file: io.BytesIO, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        read_audio(file, name="clip 7")


def test_a_file_on_disk_that_is_cut_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "cut.wav"
    path.write_bytes(wav(np.ones(900, np.int16)).getvalue()[:-200])
    with pytest.raises(ValueError, match=r"cut\.wav is truncated"):
        read_audio(path)


def test_a_stream_of_unknown_length_is_read_to_its_end() -> None:
    content = bytearray(wav(np.ones(900, np.int16)).getvalue())
    content[40:44] = b"\xff\xff\xff\xff"  # the size of the samples, as ffmpeg writes it into a pipe
    assert len(read_audio(io.BytesIO(bytes(content)))) == 900


def test_another_rate_needs_soxr(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "soxr", None)
    assert len(read_audio(wav(np.ones(900, np.int16)), 16_000)) == 900
    with pytest.raises(ImportError, match=r'from 8000 Hz to 16000 Hz needs soxr: pip install "holdfast\[audio\]"$'):
        read_audio(wav(np.ones(900, np.int16), 8_000), 16_000)


def test_silence_may_be_meant() -> None:
    assert not read_audio(wav(np.zeros(900, np.int16)), may_be_silent=True).any()


def test_unusual_wav_files_need_soundfile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    header = bytearray(wav(np.ones(64, np.int16)).getvalue())
    header[20:22] = (2).to_bytes(2, "little")  # says that it is ADPCM
    (tmp_path / "a.wav").write_bytes(header)
    monkeypatch.setitem(sys.modules, "soundfile", None)
    with pytest.raises(ValueError, match=r'a\.wav is not a readable WAV file .* pip install "holdfast\[audio\]"'):
        read_audio(tmp_path / "a.wav")


@pytest.mark.skipif(importlib.util.find_spec("soundfile") is None, reason="soundfile is not installed")
def test_flac_is_read_from_a_file_and_from_memory(tmp_path: Path) -> None:
    import soundfile

    values = np.arange(-500, 500, dtype=np.int16) * 32
    soundfile.write(tmp_path / "a.flac", values, 16_000)
    for source in (tmp_path / "a.flac", io.BytesIO((tmp_path / "a.flac").read_bytes())):
        assert read_audio(source) == pytest.approx(values / 32768)
    with pytest.raises(ValueError, match="nothing is not a readable audio file"):
        read_audio(io.BytesIO(b"fLaC nothing"), name="nothing")
