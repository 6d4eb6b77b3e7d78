"""Short-time spectra: a waveform to overlapping frames and back, and the phase vocoder between the two.

Everything is float32 and laid out (frames, bins), so that one call transforms all frames of a clip.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise
from math import ceil
from typing import TypeAlias

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray
from scipy import fft

from holdfast.audio import Waveform

Frames: TypeAlias = NDArray[np.complex64]  # (frames, bins)
OVERLAP = 4  # windows over each sample: the hop is a quarter of the window


@lru_cache(maxsize=8)
def _hann(size: int) -> Waveform:
    return np.asarray(0.5 - 0.5 * np.cos(2 * np.pi * np.arange(size) / size), np.float32)


def analyse(waveform: Waveform, size: int) -> Frames:
    """Return spectra of Hann windows of `size` samples with a hop of a quarter, the first centred on the first sample.

    >>> analyse(np.ones(1024, np.float32), 512).shape
    (9, 257)
    """
    if len(waveform) <= size // 2:
        raise ValueError(
            f"the waveform has {len(waveform)} samples, too few for windows of {size}; pass more than {size // 2}"
        )
    mirrored = np.pad(waveform, size // 2, mode="reflect")
    windows = sliding_window_view(mirrored, size)[:: size // OVERLAP] * _hann(size)
    return np.asarray(fft.rfft(windows, overwrite_x=True), np.complex64)


@lru_cache(maxsize=64)
def _overlapped_power(count: int, size: int) -> Waveform:
    """Return the sum of squared windows, the divisor of overlapping frames; 1 where no window reaches."""
    power = _overlap(np.tile(_hann(size) ** 2, (count, 1)), size)
    return np.where(power > 1e-11, power, 1).astype(np.float32)


def _overlap(windows: NDArray[np.float32], size: int) -> Waveform:
    """Return the sum of windows with a hop of a quarter."""
    hop, count = size // OVERLAP, len(windows)
    quarters = windows.reshape(count, OVERLAP, hop)
    total = np.zeros((count + OVERLAP - 1, hop), np.float32)
    for quarter in range(OVERLAP):
        total[quarter : quarter + count] += quarters[:, quarter]
    return total.reshape(-1)


def synthesise(frames: Frames, samples: int) -> Waveform:
    """Return the waveform whose spectra are nearest to these, cut or padded with silence to `samples`.

    >>> wave = np.sin(np.arange(2000, dtype=np.float32) / 9)
    >>> bool(np.allclose(synthesise(analyse(wave, 512), 2000), wave, atol=1e-5))
    True
    """
    size = 2 * (frames.shape[1] - 1)
    windows = np.asarray(fft.irfft(frames, size), np.float32)
    windows *= _hann(size)
    whole = _overlap(windows, size)
    whole /= _overlapped_power(len(frames), size)
    inside = whole[size // 2 : size // 2 + samples]  # from the centre of the first frame
    return np.pad(inside, (0, samples - len(inside)))


def stretch_frames(frames: Frames, rate: float, *, anchored: bool = False) -> Frames:
    """Return the frames that play `rate` times as fast at the same pitch (Flanagan & Golden, 1966).

    Magnitudes are interpolated between neighbouring frames; phases advance as between these frames. The advance is a
    product of unit complex numbers, so neither angles nor unwrapping are needed. Phases usually start from the first
    frame, whose phase the mirrored beginning distorts, and tones that are slowed down lose up to half of their level;
    with `anchored`, which is ours, they start in both directions from the loudest frame.

    >>> stretch_frames(np.ones((10, 5), np.complex64), 1.25).shape
    (8, 5)
    """
    count = len(frames)
    positions = np.arange(ceil(count / rate)) * rate
    positions = positions[positions < count]
    before = positions.astype(np.int64)
    share = (positions - before).astype(np.float32)[:, None]
    shape = (count + 1, frames.shape[1])
    magnitudes, units = np.empty(shape, np.float32), np.empty(shape, np.complex64)
    magnitudes[count], units[count] = 0, 1  # silence follows
    inverse = np.abs(frames, out=magnitudes[:count]).copy()
    inverse[silent := inverse == 0] = 1
    np.multiply(frames, np.reciprocal(inverse, out=inverse), out=units[:count])
    units[:count][silent] = 1
    advances = units[:-1].conj()
    np.multiply(units[1:], advances, out=advances)  # the order of factors is part of the rounding
    # The first frame keeps its phase; each later one has the phase of its predecessor plus the advance.
    phases = np.concatenate([units[:1], advances[before[:-1]]])
    for previous, now in pairwise(phases):
        np.multiply(now, previous, out=now)
    if anchored:
        loudest = int(int(magnitudes.sum(1).argmax()) / rate)
        phases *= units[before[loudest]] * phases[loudest].conj()
    phases *= magnitudes[before] * (1 - share) + magnitudes[before + 1] * share
    return phases
