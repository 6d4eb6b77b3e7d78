"""Sound files, and files within files: opened in whatever format they are, read as mono at the rate asked for."""

from __future__ import annotations

import struct
import warnings
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.io import wavfile

from holdfast.audio.resampling import resample
from holdfast.audio.waveforms import Waveform

__all__ = ["SUFFIXES", "AudioFile", "open_audio", "read_audio"]

SUFFIXES = {".flac", ".ogg", ".wav"}
REMEDY = "replace it or take it away"
# What scipy stumbles over in headers that say too little or nonsense.
TORN = (ValueError, OSError, EOFError, ArithmeticError, UnboundLocalError, struct.error)


class AudioFile(Protocol):
    """An open sound: what its header says, and any stretch of it."""

    sample_rate: int
    samples: int

    def read(self, start: int, stop: int) -> NDArray[np.float32]:
        """Return samples (n, channels) in [-1, 1]."""


def read_audio(
    source: Path | BinaryIO, sample_rate: int | None = None, *, name: str | None = None, may_be_silent: bool = False
) -> Waveform:
    """Return a whole sound as a mono waveform, its channels averaged, at this sample rate or its own.

    What cannot be read, is empty, holds NaN or says nothing is refused by its name.
    """
    name = name or str(source)
    content = open_audio(source, name)
    waveform = content.read(0, content.samples).mean(axis=1, dtype=np.float32)
    if not np.isfinite(waveform).all():
        raise ValueError(f"{name} holds NaN or infinite values; {REMEDY}")
    if not (may_be_silent or waveform.any()):
        raise ValueError(f"{name} is silent from beginning to end; {REMEDY}")
    return resample(waveform, content.sample_rate, sample_rate or content.sample_rate)


def open_audio(source: Path | BinaryIO, name: str | None = None) -> AudioFile:
    """Return an open WAV file, or with the extra `audio` a FLAC, an Ogg or an unusual WAV file."""
    name = name or str(source)
    content = _opened_wav(source, name) if _is_wav(source) else _Compressed(source, name)
    if not content.samples:
        raise ValueError(f"{name} is empty; take it away")
    if content.sample_rate < 1:
        raise ValueError(f"{name} claims {content.sample_rate} samples a second; {REMEDY}")
    return content


def _is_wav(source: Path | BinaryIO) -> bool:
    if isinstance(source, Path):
        return source.suffix.lower() == ".wav"
    start = source.read(4)
    source.seek(0)
    return start in (b"RIFF", b"RIFX", b"RF64")


def _opened_wav(source: Path | BinaryIO, name: str) -> AudioFile:
    try:
        return _Wav(source, name)
    except ValueError as error:
        try:  # UrbanSound8K has ADPCM and µ-law in some of its files, which scipy does not read
            return _Compressed(source, name)
        except ImportError:
            raise ValueError(f'{error}, or see if it is only unusual: pip install "holdfast[audio]"') from error
        except ValueError:
            raise error from None


class _Wav:
    """A WAV file, mapped into memory where it is a file and its samples are whole words."""

    def __init__(self, source: Path | BinaryIO, name: str) -> None:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", wavfile.WavFileWarning)  # of chunks that hold no sound
                self.sample_rate, self.values = self._read(source)
        except TORN as error:
            raise ValueError(f"{name} is not a readable WAV file ({error}); {REMEDY}") from error
        self.samples = len(self.values)

    def _read(self, source: Path | BinaryIO) -> tuple[int, NDArray[Any]]:
        if isinstance(source, Path):
            try:
                rate, values = wavfile.read(source, mmap=True)
                return int(rate), values
            except ValueError:  # 24 bits cannot be mapped
                pass
        rate, values = wavfile.read(source)
        return int(rate), values

    def read(self, start: int, stop: int) -> NDArray[np.float32]:
        """Return samples (n, channels) in [-1, 1]."""
        values: NDArray[Any] = self.values[start:stop].reshape(stop - start, -1)
        if values.dtype == np.uint8:  # 8 bits have no sign
            return np.asarray((values.astype(np.float32) - 128) / 128, np.float32)
        if values.dtype.kind == "i":
            return np.asarray(values / np.float32(2 ** (8 * values.itemsize - 1)), np.float32)
        return values.astype(np.float32)


class _Compressed:
    """A file that soundfile reads."""

    def __init__(self, source: Path | BinaryIO, name: str) -> None:
        try:
            import soundfile
        except ImportError as error:
            raise ImportError(f'{name} needs soundfile to be read: pip install "holdfast[audio]"') from error
        self.source, self.open = source, soundfile.SoundFile
        try:
            with self.open(source) as file:
                self.sample_rate, self.samples = int(file.samplerate), int(file.frames)
        except soundfile.SoundFileError as error:
            raise ValueError(f"{name} is not a readable recording ({error}); {REMEDY}") from error

    def read(self, start: int, stop: int) -> NDArray[np.float32]:
        """Return samples (n, channels) in [-1, 1]."""
        if not isinstance(self.source, Path):
            self.source.seek(0)
        with self.open(self.source) as file:
            file.seek(start)
            return np.asarray(file.read(stop - start, dtype="float32", always_2d=True))
