"""Waveforms: mono, float32, of a given length, and as they come back from a file."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = ["Waveform", "as_pcm16", "fit_length", "store_as_pcm16"]

Waveform: TypeAlias = NDArray[np.float32]  # (samples,), mono, in [-1, 1]


def fit_length(waveform: Waveform, samples: int) -> Waveform:
    """Return the waveform with so many samples: in the middle of silence where it is shorter, else its beginning.

    >>> fit_length(np.ones(3, np.float32), 6).tolist()
    [0.0, 1.0, 1.0, 1.0, 0.0, 0.0]
    """
    missing = max(0, samples - len(waveform))
    return np.pad(waveform, (missing // 2, missing - missing // 2))[:samples]


def store_as_pcm16(waveform: Waveform) -> Waveform:
    """Return the waveform as it comes back from a 16-bit file: beyond ±1 it is clipped.

    >>> store_as_pcm16(np.array([-1.5, 0.5, 1.5], np.float32)).tolist()
    [-1.0, 0.5, 0.999969482421875]
    """
    return np.asarray(as_pcm16(waveform) / np.float32(32768), np.float32)


def as_pcm16(waveform: Waveform) -> NDArray[np.int16]:
    """Return the waveform as 16-bit files hold it."""
    return np.asarray(np.clip(np.rint(waveform * 32768), -32768, 32767), np.int16)
