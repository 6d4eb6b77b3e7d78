"""Noise at an exact signal-to-noise ratio: white, or cut from recordings of environments."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from math import inf, log10
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.audio import Recording, Waveform
from holdfast.corruptions.audio.base import DHAUDS, AudioCorruption, Waveforms, audio_corruption
from holdfast.corruptions.audio.environments import environments
from holdfast.corruptions.base import CORRUPTIONS, Rng
from holdfast.corruptions.draws import integers, normal, uniform

# Severity is linear in the amplitude ratio of noise to signal; 3 to 4 are the 7 to 5 dB of the published L2.
RATIOS = [10 ** (-snr_db / 20) for snr_db in (inf, 20, 10, 7, 5, 0)]


def mix(waveforms: Waveforms, noises: Waveforms, snr_db: float) -> Waveforms:
    """Add noise to waveforms (…, samples) at a signal-to-noise ratio in dB, both energies over the whole clip.

    If a clip or its noise is silent, the ratio does not exist and the clip is returned unchanged.

    >>> mix(np.ones(4, np.float32), np.full(4, 0.3, np.float32), 20.0)
    array([1.1, 1.1, 1.1, 1.1], dtype=float32)
    """
    signal, noise = (np.square(part, dtype=np.float64).sum(-1, keepdims=True) for part in (waveforms, noises))
    gain = np.sqrt(np.divide(signal, noise, where=noise > 0, out=np.zeros_like(signal)) * 10 ** (-snr_db / 10))
    return np.asarray(waveforms + gain * noises, np.float32)


def draw_white(rng: Rng, samples: int, *, compat: bool = False) -> Waveform:
    """Return normal or uniform noise, each with probability 1/2.

    Uniform noise has mean 0, so that all of its energy is audible; with `compat` it is in [0, 1) as in the official
    code, and three quarters of its energy are a constant offset.
    """
    if integers(rng, 0, 2):
        return np.asarray(uniform(rng, (samples,)) - (0 if compat else 0.5), np.float32)
    return np.asarray(normal(rng, (samples,)), np.float32)


def _white(rng: Rng, waveform: Waveform, *_: float, **__: int) -> tuple[Waveform]:
    return (draw_white(rng, len(waveform)),)


def _white_compat(rng: Rng, waveform: Waveform, *_: float, **__: int) -> tuple[Waveform]:
    return (draw_white(rng, len(waveform), compat=True),)


@audio_corruption("white_noise", RATIOS, draw=_white, alias="whn")
def white_noise(waveforms: Waveforms, noises: Waveforms, ratio: float) -> Waveforms:
    """Add white noise, normal or uniform, at the same signal-to-noise ratio to every clip."""
    return mix(waveforms, noises, -20 * log10(ratio))


@audio_corruption("white_noise_compat", RATIOS, draw=_white_compat, alias="whn_compat")
def white_noise_compat(waveforms: Waveforms, noises: Waveforms, ratio: float) -> Waveforms:
    """Add white noise as in the official code, where uniform noise is mostly a constant offset."""
    return mix(waveforms, noises, -20 * log10(ratio))


def cut_noise(recordings: Sequence[Recording], rng: Rng, samples: int, sample_rate: int) -> Waveform:
    """Return a part of a recording; recording and position are drawn uniformly."""
    recording = recordings[int(integers(rng, 0, len(recordings)))]
    last = recording.samples(sample_rate) - samples
    if last < 0:
        raise ValueError(f"the noise {recording.name} is shorter than a clip of {samples / sample_rate:g} s; remove it")
    return recording.cut(int(integers(rng, 0, last + 1)), samples, sample_rate)


def noise_from(recordings: Sequence[Recording], *, name: str, source: str | None = None) -> AudioCorruption:
    """Return environmental noise from your own recordings, as read by `holdfast.corruptions.audio.corpora`.

    To use it in streams, register it: `CORRUPTIONS.register(mine.name)(mine)`.
    """
    if not recordings:
        raise ValueError(f"{name} needs at least one recording; pass a folder of recordings")

    def draw(rng: Rng, waveform: Waveform, _ratio: float, *, sample_rate: int) -> tuple[NDArray[Any]]:
        return (cut_noise(recordings, rng, len(waveform), sample_rate),)

    source = source or description_of(recordings)
    return AudioCorruption(name, {"audio": RATIOS}, _environmental_noise, draw, citation=DHAUDS, source=source)


def _environmental_noise(waveforms: Waveforms, noises: Waveforms, ratio: float) -> Waveforms:
    """Add a part of a recording at the same signal-to-noise ratio to every clip."""
    return mix(waveforms, noises, -20 * log10(ratio))


def description_of(recordings: Sequence[Recording]) -> str:
    """Return the number of recordings and a digest of their identities."""
    digest = hashlib.blake2b("\n".join(recording.identity for recording in recordings).encode(), digest_size=8)
    return f"{len(recordings)} recordings of digest {digest.hexdigest()}"


def _stand_in(family: str, corpus: str) -> AudioCorruption:
    source = f"procedural noise in place of {corpus}"
    entry = noise_from(environments(family), name=family, source=source)
    CORRUPTIONS.register(family)(entry)
    return entry


enq = _stand_in("enq", "QUT-NOISE")
end1 = _stand_in("end1", "DEMAND")
end2 = _stand_in("end2", "DEMAND")
ensc = _stand_in("ensc", "the Speech Commands backgrounds")
