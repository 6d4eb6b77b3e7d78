"""Measure images per second of every corruption.

    python benchmarks/corruptions.py [--severity 5] [--json FILE] [name ...]

Runs on one thread; generators are created beforehand. If the package `imagecorruptions` is installed, it is measured
too, in alternation with ours, so that other jobs on the machine slow down both. Its 32-pixel figures use the 224-pixel
severities, the only ones it has. Figures are medians of processor time.
"""

from __future__ import annotations

import os

os.environ["OMP_NUM_THREADS"] = "1"  # before numpy reads it

import argparse
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from measured import add_json, write

from holdfast.corruptions import CORRUPTIONS
from holdfast.randomness import seeded_rng

SIZES = {32: (64, 64), 224: (16, 2)}  # pixels -> images per batch, for ours and for the other package
SECONDS = 1.0  # minimum per line


def ours(name: str, severity: int, images: np.ndarray) -> Callable[[], object]:
    """Return a call that corrupts the whole batch."""
    rngs = [seeded_rng(0, "benchmark", index) for index in range(len(images))]
    return lambda: CORRUPTIONS[name].batch(images, severity, rngs)


def theirs(name: str, severity: int, images: np.ndarray) -> Callable[[], object] | None:
    """Return a call of `imagecorruptions`, which works image by image; None if it is not installed."""
    try:
        corrupt = _revived()
    except ImportError:
        return None
    return lambda: [corrupt(image, corruption_name=name, severity=severity) for image in images]


def _revived() -> Callable[..., np.ndarray]:
    """Return `imagecorruptions.corrupt`, patched for two names that current libraries no longer have."""
    warnings.simplefilter("ignore")
    setattr(np, "float_", np.float64)  # noqa: B010 (a name that numpy no longer has)
    from imagecorruptions import corrupt, corruptions
    from skimage.filters import gaussian

    def with_channels(image: np.ndarray, sigma: float, multichannel: bool = False, **options: Any) -> Any:
        return gaussian(image, sigma, channel_axis=-1 if multichannel else None, **options)

    corruptions.gaussian = with_channels
    return corrupt  # type: ignore[no-any-return]


def seconds_in_turn(*calls: Callable[[], object]) -> list[float]:
    """Return the median processor time of each call, measured in alternation."""
    times: list[list[float]] = []
    until = time.perf_counter() + SECONDS
    while len(times) < 4 or time.perf_counter() < until:
        times.append([])
        for call in calls:
            start = time.process_time()
            call()
            times[-1].append(time.process_time() - start)
    return [float(median) for median in np.median(times[1:], axis=0)]  # the first round warms up


def main() -> None:
    """Print one line per corruption, and the geometric mean of the ratios."""
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*", default=CORRUPTIONS.names("image"))
    parser.add_argument("--severity", type=int, default=5)
    add_json(parser)
    chosen = parser.parse_args()
    y, x = np.mgrid[0:1:224j, 0:1:224j]
    scene = np.stack([x, y, (1 + np.sin(40 * x * y)) / 2], axis=-1)
    large = np.uint8(255 * np.clip(scene + np.random.default_rng(0).normal(0, 0.05, scene.shape), 0, 1))
    measured: dict[str, dict[str, list[float]]] = {}
    for size, (count, fewer) in SIZES.items():
        images = np.stack([large[:size, :size]] * count)
        print(f"\n{size} pixels, batches of {count}: images per second, ours, theirs, ratio")
        ratios = []
        for name in chosen.names:
            few = images[: 1 if name == "glass_blur" else fewer]
            calls = ours(name, chosen.severity, images), theirs(name, chosen.severity, few)
            seconds = seconds_in_turn(*filter(None, calls))
            line = f"{name:20}{count / seconds[0]:10.0f}"
            if len(seconds) == 2:
                ratios.append((count / seconds[0]) / (len(few) / seconds[1]))
                line += f"{len(few) / seconds[1]:10.0f}{ratios[-1]:8.1f}x"
            print(line, flush=True)
            rates = [many / took for many, took in zip((count, len(few)), seconds, strict=False)]
            measured.setdefault(f"{size} px", {})[name] = rates  # images per second: ours, and theirs if installed
        if ratios:
            print(f"{'geometric mean':40}{np.exp(np.mean(np.log(ratios))):8.1f}x")
    write(chosen.json, {"severity": chosen.severity, "images_per_second": measured})


if __name__ == "__main__":
    main()
