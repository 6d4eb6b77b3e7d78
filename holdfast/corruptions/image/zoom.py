"""Zoom blur: the camera approaches during the exposure."""

from __future__ import annotations

from functools import lru_cache
from math import ceil
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from holdfast.corruptions.base import Images, corruption, images_of

__all__ = ["zoom_blur", "zoom_taps"]


def zoom_taps(length: int, factor: float) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """Return, for each position on an axis enlarged about its middle, its two neighbours and the fraction between them.

    The middle `ceil(length / factor)` values are stretched with their ends fixed, and the excess is cut off.

    >>> [taps.tolist() for taps in zoom_taps(4, 2)]
    [[1, 1, 1, 1], [2, 2, 2, 2], [0.0, 0.3333333333333333, 0.6666666666666666, 1.0]]
    """
    kept = ceil(length / factor)
    stretched = round(kept * factor)
    places = np.arange(length) + (stretched - length) // 2
    positions = places * ((kept - 1) / max(stretched - 1, 1))
    below = np.minimum(positions.astype(int), max(kept - 2, 0))
    first = (length - kept) // 2 + below
    return first, np.minimum(first + 1, length - 1), positions - below


@lru_cache(maxsize=32)
def _zooms(length: int, factors: tuple[float, ...]) -> tuple[list[Any], Any]:
    """Return the enlargements of an axis by all factors as one sparse matrix, stacked by rows."""
    matrices = []
    for factor in factors:
        first, second, share = zoom_taps(length, factor)
        values, columns = np.stack([1 - share, share], axis=-1), np.stack([first, second], axis=-1)
        rows = np.arange(0, 2 * length + 1, 2)
        matrices.append(sparse.csr_array((values.ravel(), columns.ravel(), rows), shape=(length, length)))
    return matrices, sparse.vstack(matrices, "csr")


@corruption(
    "zoom_blur",
    {
        "32": [(1, stop, 0.01) for stop in (1, 1.06, 1.11, 1.16, 1.21, 1.26)],
        "64": [(1, stop, 0.01) for stop in (1, 1.06, 1.11, 1.16, 1.21, 1.26)],
        "224": ((1, 1, 0.01), (1, 1.11, 0.01), (1, 1.16, 0.01), (1, 1.21, 0.02), (1, 1.26, 0.02), (1, 1.31, 0.03)),
    },
)
def zoom_blur(images: Images, start: float, stop: float, step: float) -> Images:
    """Average the image with enlarged copies of itself, as if the camera approached during the exposure."""
    count, height, width, channels = images.shape
    factors = tuple(
        np.arange(start, stop, step).tolist()
    )  # computed by numpy: one ulp can change which pixels are kept
    if len(factors) == 1:
        return images
    planes = np.ascontiguousarray(images.transpose(1, 0, 3, 2)).reshape(height, -1) / np.float32(255)
    taller = (_zooms(height, factors[1:])[1] @ planes.astype(np.float64)).reshape(-1, height, count * channels, width)
    flipped = np.ascontiguousarray(planes.reshape(height, -1, width).transpose(2, 1, 0)).reshape(width, -1)
    # The reference sums in float32, the image first and last, and the truncated result depends on that order.
    total = flipped.copy()
    for enlarged, widen in zip(taller, _zooms(width, factors[1:])[0], strict=True):
        total += (widen @ np.ascontiguousarray(enlarged.transpose(2, 1, 0)).reshape(width, -1)).astype(np.float32)
    total += flipped
    total /= len(factors) + 1
    return images_of(total.reshape(width, count, channels, height).transpose(2, 1, 3, 0))
