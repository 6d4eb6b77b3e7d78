"""Recordings of which only the requested part is read: one second of noise does not load minutes."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from io import BytesIO
from math import ceil
from pathlib import Path
from typing import Protocol

import numpy as np

from holdfast.audio.decoding import AudioFile, open_audio
from holdfast.audio.waveforms import Waveform, resample


class Recording(Protocol):
    """A recording that can be cut at any position and sample rate."""

    @property
    def name(self) -> str:
        """Name for messages."""

    @property
    def identity(self) -> str:
        """Text that distinguishes it from other recordings without reading all of it."""

    def samples(self, sample_rate: int) -> int:
        """Return its number of samples at this rate."""

    def cut(self, start: int, samples: int, sample_rate: int) -> Waveform:
        """Return `samples` mono samples from `start` on, at this rate."""


@dataclass(frozen=True)
class FileRecording:
    """A WAV file, or with the extra `audio` a FLAC or Ogg file; its channels are averaged."""

    path: Path
    label: str = ""  # the kind of noise, if the corpus names it

    @property
    def name(self) -> str:
        """Folder and name of the file."""
        return f"{self.path.parent.name}/{self.path.name}"

    @property
    def identity(self) -> str:
        """Name, sample rate and length."""
        return f"{self.name} {self._content.sample_rate} {self._content.samples}"

    def samples(self, sample_rate: int) -> int:
        """Return its number of samples at this rate."""
        return self._content.samples * sample_rate // self._content.sample_rate

    def cut(self, start: int, samples: int, sample_rate: int) -> Waveform:
        """Return `samples` mono samples from `start` on, at this rate."""
        content = self._content
        ratio = Fraction(sample_rate, content.sample_rate)
        first = int(start / ratio)
        values = content.read(first, min(content.samples, first + ceil(samples / ratio) + 1))
        return resample(values.mean(axis=1, dtype=np.float32), content.sample_rate, sample_rate)[:samples]

    @cached_property
    def _content(self) -> AudioFile:
        return open_audio(self.path)


@dataclass(frozen=True)
class StoredRecording(FileRecording):
    """An audio file stored inside another, such as a Parquet row: kept in memory as stored; `path` is only a name."""

    stored: bytes = field(default=b"", repr=False)

    @cached_property
    def _content(self) -> AudioFile:
        return open_audio(BytesIO(self.stored), self.name)
