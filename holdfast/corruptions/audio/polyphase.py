"""Change the length of a waveform together with its pitch, without the extra that `holdfast.audio.resample` needs."""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from holdfast.audio import Waveform


def lengthen(waveform: Waveform, ratio: Fraction) -> Waveform:
    """Return the waveform with `ratio` times as many samples.

    >>> len(lengthen(np.zeros(48_000, np.float32), Fraction(1, 3)))
    16000
    """
    if ratio == 1:
        return waveform
    from scipy.signal import resample_poly  # takes a second to import

    filtered = resample_poly(waveform, ratio.numerator, ratio.denominator, window=_lowpass(ratio))
    return np.asarray(filtered, np.float32)


@lru_cache(maxsize=64)
def _lowpass(ratio: Fraction) -> NDArray[np.float32]:
    """Return the low-pass filter for both lengths: a sinc with ten zero crossings on either side."""
    from scipy.signal import firwin

    coarser = max(ratio.numerator, ratio.denominator)
    return np.asarray(firwin(20 * coarser + 1, 1 / coarser, window=("kaiser", 5.0)), np.float32)
