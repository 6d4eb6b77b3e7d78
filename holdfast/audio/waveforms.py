"""Mono float32 waveforms: fit their length, resample them, and store them with 16 bits."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from holdfast.machine.extras import extra

Waveform: TypeAlias = NDArray[np.float32]  # (samples,), mono, in [-1, 1]


def fit_length(waveform: Waveform, samples: int) -> Waveform:
    """Return a waveform of `samples` samples: centred in silence if it is shorter, otherwise its beginning.

    >>> fit_length(np.ones(3, np.float32), 6).tolist()
    [0.0, 1.0, 1.0, 1.0, 0.0, 0.0]
    """
    missing = max(0, samples - len(waveform))
    return np.pad(waveform, (missing // 2, missing - missing // 2))[:samples]


def store_as_pcm16(waveform: Waveform) -> Waveform:
    """Return the waveform as read back from a 16-bit file; values beyond ±1 are clipped.

    >>> store_as_pcm16(np.array([-1.5, 0.5, 1.5], np.float32)).tolist()
    [-1.0, 0.5, 0.999969482421875]
    """
    return np.asarray(as_pcm16(waveform) / np.float32(32768), np.float32)


def as_pcm16(waveform: Waveform) -> NDArray[np.int16]:
    """Return the waveform as 16-bit integers."""
    return np.asarray(np.clip(np.rint(waveform * 32768), -32768, 32767), np.int16)


def resample(waveform: Waveform, sample_rate: int, wanted_rate: int) -> Waveform:
    """Resample a waveform with SoX; rates that differ need the extra `audio`.

    >>> len(resample(np.zeros(16_000, np.float32), 16_000, 16_000))
    16000
    """
    if sample_rate == wanted_rate:
        return waveform
    soxr = extra("audio", "soxr", f"resampling from {sample_rate} Hz to {wanted_rate} Hz needs")
    return np.asarray(soxr.resample(waveform, sample_rate, wanted_rate, "HQ"), np.float32)
