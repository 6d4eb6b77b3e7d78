"""Change tempo or pitch of audio."""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.audio import Waveform, fit_length
from holdfast.corruptions.audio.base import Waveforms, audio_corruption
from holdfast.corruptions.audio.spectrum import Frames, analyse, stretch_frames, synthesise
from holdfast.corruptions.base import Rng, keep_memory
from holdfast.corruptions.draws import integers

STRETCH_WINDOW, PITCH_WINDOW = 1024, 512  # samples at every sample rate, as in the official code
STRETCH_ROWS = (
    0,
    0.04,
    0.06,
    0.08,
    0.12,
    0.2,
)  # relative change of tempo: severities 1 to 2 are the published L1, 3 to 4 are L2
PITCH_ROWS = (0, 2, 4, 5, 7, 9)  # semitones: severities 2 to 3 are L1, 3 to 4 are L2


def stretch(waveform: Waveform, rate: float) -> Waveform:
    """Return the waveform played `rate` times as fast at the same pitch, `round(samples / rate)` samples.

    >>> len(stretch(np.zeros(16_000, np.float32), 1.25))
    12800
    """
    keep_memory()
    frames = stretch_frames(analyse(waveform, STRETCH_WINDOW), rate, anchored=True)
    return synthesise(frames, round(len(waveform) / rate))


def stretch_compat(waveform: Waveform, rate: float, rng: np.random.Generator) -> Waveform:
    """Stretch time as the official code of DHAuDS does: square roots of the magnitudes, phases lost.

    The code passes magnitudes to Griffin-Lim as powers: level differences in decibels are halved and the level drops.
    The length is a multiple of 256 samples.
    """
    magnitudes = np.sqrt(np.abs(stretch_frames(analyse(waveform, STRETCH_WINDOW), rate)))
    shape = magnitudes.shape
    return griffin_lim(magnitudes, rng.random(shape, np.float32) + 1j * rng.random(shape, np.float32))


def griffin_lim(
    magnitudes: NDArray[np.float32], phases: NDArray[Any], *, rounds: int = 32, momentum: float = 0.99
) -> Waveform:
    """Return a waveform with these magnitudes (frames, bins), starting from the given phases.

    Griffin & Lim, 1984, with momentum (Perraudin et al., WASPAA 2013).
    """
    size = 2 * (magnitudes.shape[1] - 1)
    samples = size // 4 * (len(magnitudes) - 1)
    frames: Frames = np.asarray(magnitudes * phases, np.complex64)
    previous = np.zeros_like(frames)
    for _ in range(rounds):
        rebuilt = analyse(synthesise(frames, samples), size)
        frames = rebuilt - np.float32(momentum / (1 + momentum)) * previous
        frames *= magnitudes / (np.abs(frames) + np.float32(1e-16))
        previous = rebuilt
    return synthesise(frames, samples)


def shift_pitch(waveform: Waveform, semitones: float) -> Waveform:
    """Shift the pitch by this many semitones and keep the length: stretch, then resample.

    Window and phases are those of the official code.

    >>> wave = np.sin(2 * np.pi * 440 * np.arange(16_000) / 16_000).astype(np.float32)
    >>> int(np.abs(np.fft.rfft(shift_pitch(wave, 12))).argmax())
    880
    """
    keep_memory()
    samples = len(waveform)
    rate = 2.0 ** (-semitones / 12)
    stretched = synthesise(stretch_frames(analyse(waveform, PITCH_WINDOW), rate), round(samples / rate))
    # The error is a few millionths, and small terms keep the filter short.
    shifted = lengthen(stretched, Fraction(rate).limit_denominator(500))[:samples]
    return np.pad(shifted, (0, samples - len(shifted)))


def _direction(rng: Rng, *_: Any, **__: int) -> tuple[NDArray[Any]]:
    return (1 - 2 * integers(rng, 0, 2),)


def _direction_and_seed(rng: Rng, *_: Any, **__: int) -> tuple[NDArray[Any], NDArray[Any]]:
    # A seed and not the phases, because the number of frames depends on the direction.
    return 1 - 2 * integers(rng, 0, 2), integers(rng, 0, 2**31 - 1)


@audio_corruption("time_stretch", STRETCH_ROWS, draw=_direction, alias="tst")
def time_stretch(waveforms: Waveforms, direction: NDArray[Any], share: float) -> Waveforms:
    """Play faster or slower at the same pitch: shorter clips are centred in silence, longer ones are cut."""
    rates = 1 + direction * share
    return np.stack([fit_length(stretch(wave, rate), len(wave)) for wave, rate in zip(waveforms, rates, strict=True)])


@audio_corruption("time_stretch_compat", STRETCH_ROWS, draw=_direction_and_seed, alias="tst_compat")
def time_stretch_compat(waveforms: Waveforms, direction: NDArray[Any], seed: NDArray[Any], share: float) -> Waveforms:
    """Play faster or slower as in the official code, with square roots of the magnitudes and lost phases."""
    stretched = [
        stretch_compat(wave, 1 + sign * share, np.random.default_rng(each))
        for wave, sign, each in zip(waveforms, direction, seed, strict=True)
    ]
    return np.stack([fit_length(wave, waveforms.shape[1]) for wave in stretched])


@audio_corruption("pitch_shift", PITCH_ROWS, draw=_direction, alias="psh")
def pitch_shift(waveforms: Waveforms, direction: NDArray[Any], semitones: float) -> Waveforms:
    """Raise or lower the pitch at the same tempo."""
    return np.stack([shift_pitch(wave, sign * semitones) for wave, sign in zip(waveforms, direction, strict=True)])


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
