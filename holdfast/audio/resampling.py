"""Resample waveforms."""

from __future__ import annotations

import numpy as np

from holdfast.audio.waveforms import Waveform


def resample(waveform: Waveform, sample_rate: int, wanted_rate: int) -> Waveform:
    """Resample a waveform with SoX; rates that differ need the extra `audio`.

    >>> len(resample(np.zeros(16_000, np.float32), 16_000, 16_000))
    16000
    """
    if sample_rate == wanted_rate:
        return waveform
    try:
        import soxr
    except ImportError as error:
        problem = f"resampling from {sample_rate} Hz to {wanted_rate} Hz needs soxr"
        raise ImportError(f'{problem}: pip install "holdfast[audio]"') from error
    return np.asarray(soxr.resample(waveform, sample_rate, wanted_rate, "HQ"), np.float32)
