"""Recordings on disk, read where they are looked at: minutes of noise are never loaded for a second of it."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, partial
from math import ceil
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.io import wavfile

from holdfast.corruptions.audio.resampling import resample
from holdfast.corruptions.audio.waveforms import Waveform

__all__ = ["FileRecording", "Recording"]


class Recording(Protocol):
    """Noise that can be cut at any place and sample rate."""

    @property
    def name(self) -> str:
        """What messages call it."""

    @property
    def identity(self) -> str:
        """What tells it from another recording, without reading all of it."""

    def samples(self, sample_rate: int) -> int:
        """Return how many samples it has at this rate."""

    def cut(self, start: int, samples: int, sample_rate: int) -> Waveform:
        """Return a mono stretch of it at this rate."""


@dataclass(frozen=True)
class FileRecording:
    """A WAV file, or with the extra `audio` a FLAC or Ogg file, with any number of channels, which are averaged."""

    path: Path
    label: str = ""  # the kind of noise, where the corpus says so

    @property
    def name(self) -> str:
        """Folder and name of the file."""
        return f"{self.path.parent.name}/{self.path.name}"

    @property
    def identity(self) -> str:
        """Name, sample rate and length."""
        return f"{self.name} {self._content.sample_rate} {self._content.samples}"

    def samples(self, sample_rate: int) -> int:
        """Return how many samples it has at this rate."""
        return self._content.samples * sample_rate // self._content.sample_rate

    def cut(self, start: int, samples: int, sample_rate: int) -> Waveform:
        """Return a mono stretch of it at this rate."""
        content = self._content
        ratio = Fraction(sample_rate, content.sample_rate)
        first = int(start / ratio)
        values = content.read(first, min(content.samples, first + ceil(samples / ratio) + 1))
        return resample(values.mean(axis=1, dtype=np.float32), ratio)[:samples]

    @cached_property
    def _content(self) -> _Wav | _Compressed:
        content = (_Wav if self.path.suffix.lower() == ".wav" else _Compressed)(self.path)
        if not content.samples:
            raise ValueError(f"{self.path} is empty; take it away")
        return content


class _Wav:
    """A WAV file, mapped into memory where its samples are whole words."""

    def __init__(self, path: Path) -> None:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", wavfile.WavFileWarning)  # of chunks that hold no sound
                try:
                    self.sample_rate, self.values = wavfile.read(path, mmap=True)
                except ValueError:  # 24 bits cannot be mapped
                    self.sample_rate, self.values = wavfile.read(path)
        except (ValueError, OSError, EOFError) as error:
            raise ValueError(f"{path} is not a readable WAV file ({error}); replace it or take it away") from error
        self.samples = len(self.values)

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

    def __init__(self, path: Path) -> None:
        try:
            import soundfile
        except ImportError as error:
            raise ImportError(f"{path} needs soundfile to be read: pip install holdfast[audio]") from error
        self.open: Callable[[], Any] = partial(soundfile.SoundFile, path)
        try:
            with self.open() as file:
                self.sample_rate, self.samples = int(file.samplerate), int(file.frames)
        except soundfile.SoundFileError as error:
            raise ValueError(f"{path} is not a readable recording ({error}); replace it or take it away") from error

    def read(self, start: int, stop: int) -> NDArray[np.float32]:
        """Return samples (n, channels) in [-1, 1]."""
        with self.open() as file:
            file.seek(start)
            return np.asarray(file.read(stop - start, dtype="float32", always_2d=True))
