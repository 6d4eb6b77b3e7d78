"""Motion blur: the camera moves during the exposure."""

from __future__ import annotations

from math import ceil, cos, radians, sin
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.blas import daxpy

from holdfast.corruptions import fast
from holdfast.corruptions.base import Images, Rng, corruption

HALF_STEP = 0.5 / 257  # the reference rounds to 16 bits, then truncates to 8


def trail(images: Images, degrees: NDArray[np.float64], radius: float, sigma: float) -> Images:
    """Smear images (n, height, width, channels) along a line with a one-sided Gaussian, borders replicated.

    ImageMagick's motion blur: `2 ceil(radius) + 1` taps, each at a whole pixel, truncated and not rounded.
    """
    step = np.arange(2 * ceil(radius) + 1)
    weights = np.exp(-(step**2) / (2 * sigma**2))
    weights = weights[weights > 1e-12] / weights.sum()
    return np.stack([_trail(image, weights, angle) for image, angle in zip(images, degrees, strict=True)])


def _trail(image: NDArray[np.uint8], weights: NDArray[np.float64], degrees: float) -> NDArray[np.uint8]:
    height, width, channels = image.shape
    step = np.arange(len(weights))
    across, down = (np.ceil(step * f(radians(degrees)) - 0.5).astype(np.int64) for f in (cos, sin))
    if loops := fast.loops():
        return loops.trailed(image, weights, down, across, HALF_STEP)  # type: ignore[no-any-return]
    rows = np.arange(down.min(), height + down.max()).clip(0, height - 1)
    columns = np.arange(across.min(), width + across.max()).clip(0, width - 1)
    padded = image.take(rows, axis=0).take(columns, axis=1).astype(np.float64).ravel()
    # In the flattened image a shift in two dimensions is a shift in one.
    starts = ((down - down.min()) * len(columns) + across - across.min()) * channels
    size = ((height - 1) * len(columns) + width) * channels
    blurred = np.full(height * len(columns) * channels, HALF_STEP)
    for start, weight in zip(starts.tolist(), weights.tolist(), strict=True):
        daxpy(padded, blurred, size, weight, start)
    return blurred.reshape(height, -1, channels)[:, :width].astype(np.uint8)


def _angle(rng: Rng, *_: Any) -> tuple[float]:
    return (rng.uniform(-45, 45),)


@corruption(
    "motion_blur",
    {
        "32": ((0, 0), (6, 1), (6, 1.5), (6, 2), (8, 2), (9, 2.5)),
        "64": ((0, 0), (10, 1), (10, 1.5), (10, 2), (10, 2.5), (12, 3)),
        "224": ((0, 0), (10, 3), (15, 5), (15, 8), (15, 12), (20, 15)),
    },
    draw=_angle,
)
def motion_blur(images: Images, degrees: NDArray[np.float64], radius: float, sigma: float) -> Images:
    """Smear every point along a line, as if the camera moved during the exposure."""
    return trail(images, degrees, radius, sigma)
