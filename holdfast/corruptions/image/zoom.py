"""Zoom blur: the camera approaches during the exposure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from math import ceil
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from holdfast.corruptions import fast
from holdfast.corruptions.base import Images, corruption, quantise
from holdfast.corruptions.image.truncation import ROUNDING, Boxes, Levels, truncated


def zoom_taps(length: int, factor: float) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """Return, for each position on an axis enlarged about its middle, its two neighbours and the fraction between them.

    The middle `ceil(length / factor)` values are stretched with their ends fixed, and the excess is cut off.

    >>> [taps.tolist() for taps in zoom_taps(4, 2)]
    [[1, 1, 1, 1], [2, 2, 2, 2], [0.0, 0.3333333333333333, 0.6666666666666666, 1.0]]
    """
    kept = ceil(length / factor)
    stretched = round(kept * factor)
    pixels = np.arange(length) + (stretched - length) // 2
    positions = pixels * ((kept - 1) / max(stretched - 1, 1))
    below = np.minimum(positions.astype(int), max(kept - 2, 0))
    first = (length - kept) // 2 + below
    return first, np.minimum(first + 1, length - 1), positions - below


class _Zooms:
    """The enlargements of an axis by several factors."""

    def __init__(self, length: int, factors: tuple[float, ...]) -> None:
        self.taps = [np.stack(taps) for taps in zip(*(zoom_taps(length, factor) for factor in factors), strict=True)]
        reached = np.concatenate([*self.taps[:2], np.arange(length)[None]])
        self.first, self.last = reached.min(axis=0), reached.max(axis=0)
        self.matrices = [_matrix(*taps) for taps in zip(*self.taps, strict=True)]
        self.stacked = sparse.vstack(self.matrices, "csr").astype(np.float32)
        self.summed = sparse.hstack(self.matrices, "csr").astype(np.float32)


def _matrix(first: NDArray[Any], second: NDArray[Any], share: NDArray[Any]) -> Any:
    values, columns = np.stack([1 - share, share], axis=-1), np.stack([first, second], axis=-1)
    rows = np.arange(0, 2 * len(share) + 1, 2)
    return sparse.csr_array((values.ravel(), columns.ravel(), rows), shape=(len(share), len(share)))


_zooms = lru_cache(maxsize=32)(_Zooms)


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
    factors = tuple(np.arange(start, stop, step).tolist())  # by numpy: one ulp can change which pixels are kept
    if len(factors) == 1:
        return images
    if loops := fast.loops():
        shares, white = np.arange(256, dtype=np.float32) / np.float32(255), np.float32(255)
        down, across = (tuple(_zooms(length, factors[1:]).taps) for length in (height, width))
        return np.stack([loops.zoomed(image, shares, down, across, white) for image in images])
    planes = np.ascontiguousarray(np.moveaxis(images, -1, 0)).reshape(-1, height, width)
    zoomed = Zoomed(planes / np.float32(255), factors[1:])
    levels = truncated(zoomed.levels(), (3 * len(factors) + 8) * ROUNDING, planes, zoomed.boxes(), zoomed)
    return np.stack(list(levels.reshape(channels, count, height, width)), axis=-1)


@dataclass(frozen=True)
class Zoomed:
    """Averages of planes (n, height, width) with their enlargements."""

    planes: NDArray[np.float32]
    factors: tuple[float, ...]

    @property
    def axes(self) -> tuple[_Zooms, _Zooms]:
        height, width = self.planes.shape[1:]
        return _zooms(height, self.factors), _zooms(width, self.factors)

    def levels(self) -> NDArray[np.float32]:
        """Return the levels in float32."""
        down, across = self.axes
        total = 2 * self.planes
        for plane, summed in zip(self.planes, total, strict=True):
            wide = (across.stacked @ np.ascontiguousarray(plane.T)).reshape(-1, *plane.T.shape)
            summed += down.summed @ np.ascontiguousarray(wide.swapaxes(1, 2)).reshape(-1, plane.shape[1])
        total *= np.float32(255 / (len(self.factors) + 2))
        return total

    def boxes(self) -> Boxes:
        """Return the box of each pixel."""
        down, across = self.axes
        return Boxes(down.first, down.last, across.first, across.last)

    def everywhere(self) -> Levels:
        """Return the levels with the operations of the published code: rows before columns, in float64."""
        down, across = self.axes
        levels = np.empty(self.planes.shape, np.uint8)
        for plane, level in zip(self.planes, levels, strict=True):
            tall = (matrix @ plane.astype(np.float64) for matrix in down.matrices)
            wide = (matrix @ np.ascontiguousarray(each.T) for matrix, each in zip(across.matrices, tall, strict=True))
            level[:] = _average(np.ascontiguousarray(plane.T), (each.astype(np.float32) for each in wide)).T
        return levels

    def at(self, indices: NDArray[np.intp]) -> Levels:
        """Return some levels with the operations of `everywhere`."""
        height, width = self.planes.shape[1:]
        start, x = np.divmod(indices, width)
        y = start % height
        start = (start - y) * width
        (top, bottom, down), (left, right, across) = (
            [taps[:, at] for taps in axis.taps] for axis, at in zip(self.axes, (y, x), strict=True)
        )
        above, below, flat = start + top * width, start + bottom * width, self.planes.reshape(-1)
        tall = [flat.take(above + column) * (1 - down) + flat.take(below + column) * down for column in (left, right)]
        return _average(flat.take(indices), (tall[0] * (1 - across) + tall[1] * across).astype(np.float32))

    def constants(self) -> Levels:
        """Return the level of each constant image: interpolation rounds to the same float32 value."""
        values = np.arange(256, dtype=np.float32) / np.float32(255)
        return _average(values, [values] * len(self.factors))


def _average(image: NDArray[np.float32], enlarged: Iterable[NDArray[np.float32]]) -> Levels:
    """Sum in float32, the image first and last, as in the published code: the truncated result depends on the order."""
    total, count = image.copy(), 2
    for one in enlarged:
        total += one
        count += 1
    total += image
    total /= count
    return quantise(total)
