"""Decode audio files, or audio files stored inside others, to mono waveforms at a given sample rate."""

from __future__ import annotations

import struct
import warnings
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.io import wavfile

from holdfast.audio.waveforms import Waveform, resample
from holdfast.machine.extras import extra

SUFFIXES = {".flac", ".ogg", ".wav"}
REMEDY = "replace or remove it"
LOUDEST = 16.0  # samples are meant to be in [-1, 1]; a little more is loud, much more is another scale
UNKNOWN_SIZES = (0, 0xFFFFFFFF)  # that programs write into the header of a stream whose end they do not know
# What scipy raises for incomplete or invalid headers.
TORN = (ValueError, OSError, EOFError, ArithmeticError, UnboundLocalError, struct.error)


class AudioFile(Protocol):
    """An open audio file: its sample rate, its length, and any range of samples."""

    sample_rate: int
    samples: int

    def read(self, start: int, stop: int) -> NDArray[np.float32]:
        """Return samples (n, channels) in [-1, 1]."""


def read_audio(
    source: Path | BinaryIO, sample_rate: int | None = None, *, name: str | None = None, may_be_silent: bool = False
) -> Waveform:
    """Read a whole file as a mono waveform, averaging its channels, at `sample_rate` or at its own rate.

    Files that are unreadable, truncated, empty, silent, contain NaN or are not scaled to [-1, 1] are refused with
    their name.
    """
    name = name or str(source)
    content = open_audio(source, name)
    values = content.read(0, content.samples)
    if len(values) < content.samples:
        raise ValueError(f"{name} is truncated: {content.samples} samples are announced, {len(values)} found; {REMEDY}")
    waveform = values.mean(axis=1, dtype=np.float32)
    if not np.isfinite(waveform).all():
        raise ValueError(f"{name} holds NaN or infinite values; {REMEDY}")
    loudest = float(np.abs(waveform).max())
    if loudest > LOUDEST:
        raise ValueError(f"{name} has amplitudes of up to {loudest:.3g}; scale its samples to [-1, 1], or remove it")
    if not (may_be_silent or waveform.any()):
        raise ValueError(f"{name} is silent throughout; {REMEDY}")
    return resample(waveform, content.sample_rate, sample_rate or content.sample_rate)


def open_audio(source: Path | BinaryIO, name: str | None = None) -> AudioFile:
    """Open a WAV file, or with the extra `audio` a FLAC, Ogg or unusual WAV file."""
    name = name or str(source)
    if _is_wav(source):
        _check_whole(source, name)
        content = _opened_wav(source, name)
    else:
        content = _Compressed(source, name)
    if not content.samples:
        raise ValueError(f"{name} is empty; remove it")
    if content.sample_rate < 1:
        raise ValueError(f"{name} has a sample rate of {content.sample_rate} Hz; {REMEDY}")
    return content


def _is_wav(source: Path | BinaryIO) -> bool:
    if isinstance(source, Path):
        return source.suffix.lower() == ".wav"
    start = source.read(4)
    source.seek(0)
    return start in (b"RIFF", b"RIFX", b"RF64")


def _check_whole(source: Path | BinaryIO, name: str) -> None:
    """Raise if the file ends before the samples that its header announces; decoders return what is left of it."""
    if isinstance(source, Path):
        with source.open("rb") as file:
            _check_whole(file, name)
        return
    end = source.seek(0, 2)
    source.seek(0)
    order = ">" if source.read(4) == b"RIFX" else "<"
    source.seek(12)
    while len(head := source.read(8)) == 8:
        kind, size = struct.unpack(f"{order}4sI", head)
        there = end - source.tell()
        if kind == b"data" and size not in UNKNOWN_SIZES and there < size:
            raise ValueError(f"{name} is truncated: {size} bytes of samples are announced, {there} found; {REMEDY}")
        if kind == b"data":
            break
        source.seek(size + size % 2, 1)
    source.seek(0)


def _opened_wav(source: Path | BinaryIO, name: str) -> AudioFile:
    try:
        return _Wav(source, name)
    except ValueError as error:
        try:  # UrbanSound8K has ADPCM and µ-law in some of its files, which scipy does not read
            return _Compressed(source, name)
        except ImportError:
            raise ValueError(
                f'{error}, or try the decoder for unusual formats: pip install "holdfast[audio]"'
            ) from error
        except ValueError:
            raise error from None


class _Wav:
    """A WAV file; a file on disk with 8, 16 or 32-bit samples is memory-mapped."""

    def __init__(self, source: Path | BinaryIO, name: str) -> None:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", wavfile.WavFileWarning)  # about chunks without audio
                self.sample_rate, self.values = self._read(source)
        except TORN as error:
            raise ValueError(f"{name} is not a readable WAV file ({error}); {REMEDY}") from error
        self.samples = len(self.values)

    def _read(self, source: Path | BinaryIO) -> tuple[int, NDArray[Any]]:
        if isinstance(source, Path):
            try:
                rate, values = wavfile.read(source, mmap=True)
                return int(rate), values
            except ValueError:  # 24-bit samples cannot be mapped
                pass
        rate, values = wavfile.read(source)
        return int(rate), values

    def read(self, start: int, stop: int) -> NDArray[np.float32]:
        """Return samples (n, channels) in [-1, 1]."""
        values: NDArray[Any] = self.values[start:stop].reshape(stop - start, -1)
        if values.dtype == np.uint8:  # 8-bit samples are unsigned
            return np.asarray((values.astype(np.float32) - 128) / 128, np.float32)
        if values.dtype.kind == "i":
            return np.asarray(values / np.float32(2 ** (8 * values.itemsize - 1)), np.float32)
        return values.astype(np.float32)


class _Compressed:
    """A file decoded by soundfile."""

    def __init__(self, source: Path | BinaryIO, name: str) -> None:
        soundfile = extra("audio", "soundfile", f"reading {name} needs")
        self.source, self.open = source, soundfile.SoundFile
        try:
            with self.open(source) as file:
                self.sample_rate, self.samples = int(file.samplerate), int(file.frames)
        except soundfile.SoundFileError as error:
            raise ValueError(f"{name} is not a readable audio file ({error}); {REMEDY}") from error

    def read(self, start: int, stop: int) -> NDArray[np.float32]:
        """Return samples (n, channels) in [-1, 1]."""
        if not isinstance(self.source, Path):
            self.source.seek(0)
        with self.open(self.source) as file:
            file.seek(start)
            return np.asarray(file.read(stop - start, dtype="float32", always_2d=True))
