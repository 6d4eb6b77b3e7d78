"""Synthesisers of noise, from which environments are mixed; they imitate no corpus.

Each is a function (rng, samples, sample_rate) -> float64 (samples,) of any level.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import fft

Values: TypeAlias = NDArray[np.float64]
Synthesiser: TypeAlias = Callable[[np.random.Generator, int, int], Values]

VOWELS_HZ = ((730, 1090, 2440), (270, 2290, 3010), (300, 870, 2240), (530, 1840, 2480), (570, 840, 2410))


def coloured(rng: np.random.Generator, samples: int, sample_rate: int, *, slope: float) -> Values:
    """Return noise whose power is frequency to the power of -slope: 0 is white, 1 pink, 2 brown."""
    frequencies = fft.rfftfreq(samples, 1 / sample_rate)
    spectrum = fft.rfft(rng.standard_normal(samples))
    return np.asarray(fft.irfft(spectrum * np.maximum(frequencies, 20) ** (-slope / 2), samples))


def band(rng: np.random.Generator, samples: int, sample_rate: int, *, low_hz: float, high_hz: float) -> Values:
    """Return noise between two frequencies that falls by 12 dB per octave outside of them."""
    frequencies = np.maximum(fft.rfftfreq(samples, 1 / sample_rate), 1)
    shape = np.minimum(1, np.minimum(frequencies / low_hz, high_hz / frequencies) ** 2)
    return np.asarray(fft.irfft(fft.rfft(rng.standard_normal(samples)) * shape, samples))


def swell(rng: np.random.Generator, samples: int, sample_rate: int, *, per_second: float, depth: float) -> Values:
    """Return a level around 1 that varies smoothly `per_second` times a second; depth 1 reaches silence."""
    count = max(4, int(samples / sample_rate * per_second) + 2)
    positions = np.linspace(0, count - 1, samples)
    below = np.minimum(positions.astype(np.int64), count - 2)
    share = 0.5 - 0.5 * np.cos(np.pi * (positions - below))
    levels = 1 + depth * rng.uniform(-1, 1, count)
    return np.asarray(levels[below] * (1 - share) + levels[below + 1] * share)


def harmonics(
    rng: np.random.Generator, samples: int, sample_rate: int, *, base_hz: float, count: int, wander: float
) -> Values:
    """Return a tone with decaying overtones whose pitch drifts by the share `wander`."""
    pitch = base_hz * swell(rng, samples, sample_rate, per_second=2, depth=wander)
    phase = 2 * np.pi * np.cumsum(pitch) / sample_rate
    highest = min(count, int(sample_rate / 2 / (base_hz * (1 + wander))))
    tones = (np.sin(order * phase + rng.uniform(0, 2 * np.pi)) / order for order in range(1, highest + 1))
    return np.asarray(sum(tones, np.zeros(samples)))


def strikes(
    rng: np.random.Generator,
    samples: int,
    sample_rate: int,
    *,
    per_second: float,
    low_hz: float,
    high_hz: float,
    decay_seconds: float,
) -> Values:
    """Return impacts at random times, of four kinds with different partials."""
    from scipy.signal import fftconvolve  # takes a second to import

    times = np.arange(int(5 * decay_seconds * sample_rate) + 1) / sample_rate
    total = np.zeros(samples)
    for _ in range(4):
        hits = rng.random(samples) < per_second / 4 / sample_rate
        partials = rng.uniform(low_hz, min(high_hz, 0.45 * sample_rate), (3, 1))
        ring = np.sin(2 * np.pi * partials * times).sum(0) * np.exp(-times / decay_seconds)
        total += fftconvolve(hits * rng.exponential(1, samples), ring)[:samples]
    return total


def voices(rng: np.random.Generator, samples: int, sample_rate: int, *, count: int) -> Values:
    """Return `count` voices at once: pulses through the formants of vowels, in syllables."""
    total = np.zeros(samples)
    for _ in range(count):
        pitch = rng.uniform(90, 230) * swell(rng, samples, sample_rate, per_second=3, depth=0.15)
        pulses = np.diff(np.floor(np.cumsum(pitch) / sample_rate), prepend=0)
        syllables = np.maximum(0, swell(rng, samples, sample_rate, per_second=9, depth=1.6) - 0.4)
        # Two vowels alternate; a moving formant would need a time-varying filter.
        turn = swell(rng, samples, sample_rate, per_second=4, depth=1) > 1
        spoken = [_vowel(pulses + 0.02 * rng.standard_normal(samples), rng, sample_rate) for _ in range(2)]
        total += syllables * np.where(turn, *spoken)
    return total


def _vowel(pulses: Values, rng: np.random.Generator, sample_rate: int) -> Values:
    from scipy.signal import lfilter

    for formant_hz in VOWELS_HZ[int(rng.integers(len(VOWELS_HZ)))]:
        radius = np.exp(-np.pi * 90 / sample_rate)
        angle = 2 * np.pi * min(formant_hz * rng.uniform(0.9, 1.15), 0.45 * sample_rate) / sample_rate
        pulses = lfilter([1 - radius], [1, -2 * radius * np.cos(angle), radius**2], pulses)
    return pulses


def swelling(synthesise: Callable[..., Values], per_second: float, depth: float, **options: float) -> Synthesiser:
    """Return a synthesiser whose level rises and falls."""

    def swollen(rng: np.random.Generator, samples: int, sample_rate: int) -> Values:
        level = np.maximum(0, swell(rng, samples, sample_rate, per_second=per_second, depth=depth))
        return synthesise(rng, samples, sample_rate, **options) * level

    return swollen


def mewing(rng: np.random.Generator, samples: int, sample_rate: int) -> Values:
    """Return a cat that mews about once a second."""
    calls = np.maximum(0, swell(rng, samples, sample_rate, per_second=2, depth=1) - 1)
    return calls * harmonics(rng, samples, sample_rate, base_hz=550, count=8, wander=0.35)


SYNTHESISERS: dict[str, Synthesiser] = {
    "white": partial(coloured, slope=0),
    "pink": partial(coloured, slope=1),
    "rumble": partial(coloured, slope=2),
    "babble": partial(voices, count=9),
    "talk": partial(voices, count=2),
    "hum": partial(harmonics, base_hz=50, count=12, wander=0.001),
    "fan": partial(band, low_hz=150, high_hz=900),
    "engine": partial(harmonics, base_hz=38, count=40, wander=0.12),
    "motor": partial(harmonics, base_hz=220, count=20, wander=0.05),
    "traffic": swelling(band, 0.4, 0.9, low_hz=60, high_hz=700),
    "wind": swelling(band, 1.2, 0.95, low_hz=30, high_hz=300),
    "tap": swelling(band, 14, 0.5, low_hz=1200, high_hz=7000),
    "river": swelling(band, 5, 0.4, low_hz=400, high_hz=4000),
    "bike": swelling(band, 4, 1.0, low_hz=300, high_hz=2500),
    "rain": partial(strikes, per_second=900, low_hz=2000, high_hz=7500, decay_seconds=0.002),
    "clatter": partial(strikes, per_second=4, low_hz=1500, high_hz=6500, decay_seconds=0.06),
    "steps": partial(strikes, per_second=3, low_hz=60, high_hz=350, decay_seconds=0.04),
    "keys": partial(strikes, per_second=7, low_hz=2500, high_hz=7000, decay_seconds=0.006),
    "birds": swelling(harmonics, 6, 1.8, base_hz=3100, count=2, wander=0.25),
    "mewing": mewing,
}
