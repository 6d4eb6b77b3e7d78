"""Recordings, read where they are looked at: minutes of noise are never loaded for a second of it."""

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
from holdfast.audio.resampling import resample
from holdfast.audio.waveforms import Waveform

__all__ = ["FileRecording", "Recording", "StoredRecording"]


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
        return resample(values.mean(axis=1, dtype=np.float32), content.sample_rate, sample_rate)[:samples]

    @cached_property
    def _content(self) -> AudioFile:
        return open_audio(self.path)


@dataclass(frozen=True)
class StoredRecording(FileRecording):
    """A file within another one, such as a row of a Parquet file: in memory as it was stored, its path only a name."""

    stored: bytes = field(default=b"", repr=False)

    @cached_property
    def _content(self) -> AudioFile:
        return open_audio(BytesIO(self.stored), self.name)
