"""Measure clips per second of the audio corruptions on one thread: `python benchmarks/audio.py [--json FILE]`.

If librosa is installed, its time stretch and pitch shift are measured too, in alternation with ours, so that other jobs
on the machine slow down both. Figures are medians of processor time.
"""

from __future__ import annotations

import os

os.environ["OMP_NUM_THREADS"] = "1"  # before numpy reads it

import argparse
import importlib.util
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from measured import in_turn, run

from holdfast.corruptions import CORRUPTIONS
from holdfast.corruptions.audio import shift_pitch, stretch
from holdfast.randomness import seeded_rng

CLIPS = {"1 s at 16 kHz": (16_000, 16_000), "4 s at 44.1 kHz": (44_100, 176_400)}  # sample rate, samples
RATES = (0.9, 1.1)  # slower and faster
SEMITONES = (-5, 5)
ROUNDS, QUICK_ROUNDS = 15, 5


def pairs(clip: np.ndarray, sample_rate: int) -> dict[str, tuple[Callable[[], object], Callable[[], object]]]:
    """Return our call and librosa's, for both effects in both directions."""
    from librosa import effects

    calls: dict[str, tuple[Callable[[], object], Callable[[], object]]] = {}
    for rate in RATES:
        calls[f"time stretch {rate:.1f}"] = partial(stretch, clip, rate), partial(effects.time_stretch, clip, rate=rate)
    for steps in SEMITONES:
        theirs = partial(effects.pitch_shift, clip, sr=sample_rate, n_steps=steps)
        calls[f"pitch shift {steps:+d}"] = partial(shift_pitch, clip, steps), theirs
    return calls


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Return clips per second of each corruption, and with librosa those of each effect."""
    rounds = QUICK_ROUNDS if options.quick else ROUNDS
    measured: dict[str, Any] = {}
    for title, (sample_rate, samples) in CLIPS.items():
        time_axis = np.arange(samples) / sample_rate
        tone = 0.3 * np.sin(2 * np.pi * (220 + 90 * time_axis) * time_axis)
        clip = (tone + np.random.default_rng(0).normal(0, 0.02, samples)).astype(np.float32)
        for name in CORRUPTIONS.names("audio"):
            corrupt, rng = CORRUPTIONS[name], seeded_rng(0, "benchmark")
            (seconds,) = in_turn(partial(corrupt, clip, 3, rng, sample_rate=sample_rate), rounds=rounds)
            measured.setdefault(title, {})[name] = {"clips_per_second": 1 / seconds}
        for name, calls in pairs(clip, sample_rate).items() if importlib.util.find_spec("librosa") else ():
            ours, theirs = in_turn(*calls, rounds=rounds)
            rates = {"clips_per_second": 1 / ours, "librosa_per_second": 1 / theirs}
            measured[title][name] = {**rates, "ratio": theirs / ours}
    return measured


if __name__ == "__main__":
    run(argparse.ArgumentParser(description=__doc__.split("\n")[0]), measure)
