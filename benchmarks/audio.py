"""Measure clips per second of the audio corruptions on one thread: `python benchmarks/audio.py [--json FILE]`.

If librosa is installed, its time stretch and pitch shift are measured too, in alternation with ours, so that other jobs
on the machine slow down both. Figures are medians of processor time.
"""

from __future__ import annotations

import os

os.environ["OMP_NUM_THREADS"] = "1"  # before numpy reads it

import argparse
import importlib.util
import time
from collections.abc import Callable
from functools import partial

import numpy as np
from measured import add_json, write

from holdfast.corruptions import CORRUPTIONS
from holdfast.corruptions.audio import shift_pitch, stretch
from holdfast.randomness import seeded_rng

CLIPS = {"1 s at 16 kHz": (16_000, 16_000), "4 s at 44.1 kHz": (44_100, 176_400)}  # sample rate, samples
RATES = (0.9, 1.1)  # slower and faster
SEMITONES = (-5, 5)
ROUNDS = 15


def seconds_in_turn(*calls: Callable[[], object]) -> list[float]:
    """Return the median processor time of each call, measured in alternation."""
    times = np.empty((ROUNDS + 1, len(calls)))
    for row in times:
        for column, call in enumerate(calls):
            start = time.process_time()
            call()
            row[column] = time.process_time() - start
    return [float(median) for median in np.median(times[1:], axis=0)]  # the first round warms up


def against_librosa(clip: np.ndarray, sample_rate: int) -> dict[str, list[float]]:
    """Print and return our speed and librosa's, for both effects in both directions."""
    from librosa import effects

    pairs: dict[str, tuple[Callable[[], object], Callable[[], object]]] = {}
    for rate in RATES:
        pairs[f"time stretch {rate:.1f}"] = partial(stretch, clip, rate), partial(effects.time_stretch, clip, rate=rate)
    for steps in SEMITONES:
        theirs = partial(effects.pitch_shift, clip, sr=sample_rate, n_steps=steps)
        pairs[f"pitch shift {steps:+d}"] = partial(shift_pitch, clip, steps), theirs
    measured = {}
    for name, calls in pairs.items():
        our_seconds, their_seconds = seconds_in_turn(*calls)
        print(
            f"{name:22}{1 / our_seconds:10.0f}{1 / their_seconds:10.0f}{their_seconds / our_seconds:8.1f}x", flush=True
        )
        measured[name] = [1 / our_seconds, 1 / their_seconds]
    return measured


def main() -> None:
    """Print one line per corruption, and with librosa one per effect."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    add_json(parser)
    options = parser.parse_args()
    measured: dict[str, dict[str, object]] = {}
    for title, (sample_rate, samples) in CLIPS.items():
        time_axis = np.arange(samples) / sample_rate
        tone = 0.3 * np.sin(2 * np.pi * (220 + 90 * time_axis) * time_axis)
        clip = (tone + np.random.default_rng(0).normal(0, 0.02, samples)).astype(np.float32)
        print(f"\n{title}: clips per second")
        for name in CORRUPTIONS.names("audio"):
            corrupt, rng = CORRUPTIONS[name], seeded_rng(0, "benchmark")
            (seconds,) = seconds_in_turn(partial(corrupt, clip, 3, rng, sample_rate=sample_rate))
            print(f"{name:22}{1 / seconds:10.0f}", flush=True)
            measured.setdefault(title, {})[name] = 1 / seconds  # clips per second
        if importlib.util.find_spec("librosa"):
            print("against librosa: ours, theirs, ratio")
            measured[title]["against librosa"] = against_librosa(clip, sample_rate)
    write(options.json, measured)


if __name__ == "__main__":
    main()
