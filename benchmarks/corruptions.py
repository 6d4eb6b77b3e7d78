"""Images per second of every corruption at severity 5, on one thread: `python benchmarks/corruptions.py`.

Generators are made beforehand. Where the package `imagecorruptions` can be imported, the ratio to it in the same run
is printed too; its 32-pixel figures use the 224-pixel severities, the only ones that it has.
"""

from __future__ import annotations

import os

os.environ["OMP_NUM_THREADS"] = "1"  # before numpy reads it

import time
from collections.abc import Callable

import numpy as np

from holdfast.corruptions import CORRUPTIONS
from holdfast.randomness import seeded_rng

SEVERITY = 5
SIZES = {32: 64, 224: 8}  # pixels -> images in a batch
SECONDS = 0.5  # for each figure, at least


def images_per_second(corrupt: Callable[[], object], count: int) -> float:
    """Return the best of several calls: other jobs on the machine only ever make one slower."""
    corrupt()
    best, until = float("inf"), time.perf_counter() + SECONDS
    while time.perf_counter() < until:
        start = time.process_time()
        corrupt()
        best = min(best, time.process_time() - start)
    return count / best


def ours(name: str, images: np.ndarray) -> float:
    """Measure one batched call."""
    rngs = [seeded_rng(0, "benchmark", index) for index in range(len(images))]
    return images_per_second(lambda: CORRUPTIONS[name].batch(images, SEVERITY, rngs), len(images))


def theirs(name: str, images: np.ndarray) -> float | None:
    """Measure `imagecorruptions`, image by image, which is all it offers; None where it is absent or fails."""
    try:
        from imagecorruptions import corrupt

        return images_per_second(
            lambda: [corrupt(image, corruption_name=name, severity=SEVERITY) for image in images], len(images)
        )
    except (ImportError, AttributeError, TypeError):  # its last release does not know today's numpy and scikit-image
        return None


def main() -> None:
    """Print one line for each corruption."""
    y, x = np.mgrid[0:1:224j, 0:1:224j]
    picture = np.stack([x, y, (1 + np.sin(40 * x * y)) / 2], axis=-1)
    large = np.uint8(255 * np.clip(picture + np.random.default_rng(0).normal(0, 0.05, picture.shape), 0, 1))
    for size, count in SIZES.items():
        images = np.stack([large[:size, :size]] * count)
        print(f"\n{size} pixels, batches of {count}: images per second, ratio to imagecorruptions")
        for name in CORRUPTIONS:
            speed, reference = ours(name, images), theirs(name, images)
            print(
                f"{name:20}{speed:10.0f}   {'reference absent' if reference is None else f'{speed / reference:.1f}x'}"
            )


if __name__ == "__main__":
    main()
