"""Elastic transform: an affine map and a smooth displacement of every pixel."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from holdfast.corruptions import fast
from holdfast.corruptions.base import Images, corruption
from holdfast.corruptions.draws import signed_uniform
from holdfast.corruptions.image.blur import Blocks, blocks_of, smooth_rows
from holdfast.corruptions.image.border import reflect

Planes: TypeAlias = NDArray[np.float32]  # (channels, n, height, width)
FARTHEST = 1e5  # pixels: a tiny image may be displaced by more than its size
ONE_32ND = np.float32(1 / 32)
BAND_PIXELS = 1 << 16  # at a time: enough to make calls cheap, few enough for the cache


def _smooth(fields: NDArray[Any], sigma: float) -> NDArray[Any]:
    """Smooth fields (..., height, width) with a Gaussian truncated at 3 sigma, borders reflected."""
    if (reach := int(3 * sigma + 0.5)) == 0:
        return fields
    for length in fields.shape[-2:]:
        fields = smooth_rows(fields, _reflecting(length, sigma, reach, fields.dtype))
    return fields


@lru_cache(maxsize=32)
def _reflecting(length: int, sigma: float, reach: int, dtype: np.dtype[Any]) -> Blocks:
    offsets, rows = np.arange(-reach, reach + 1), np.arange(length)
    weights = np.exp(-(offsets**2) / (2 * sigma**2))
    # Reflected at both ends, an axis has a period of twice its length, for a kernel of any size.
    around = np.bincount(offsets % (2 * length), weights / weights.sum(), 2 * length)
    matrix = around[(rows[:, None] - rows) % (2 * length)] + around[(rows[:, None] + rows + 1) % (2 * length)]
    return blocks_of(matrix.astype(dtype), reach)


@dataclass(frozen=True)
class _Axis:
    """Positions along an axis that is extended by its reflection on both sides."""

    whole: NDArray[np.int32]  # (n, height, width), on the extended axis
    remainder: NDArray[np.float32]
    source: NDArray[np.intp]  # the index that each index of the extended axis repeats
    itself: slice  # the indices without the reflection


def _axis(length: int, whole: NDArray[np.int32], remainder: NDArray[np.float32], *, repeat_border: bool) -> _Axis:
    """Extend an axis as far as positions need; `whole` is overwritten."""
    lowest, highest = min(int(whole.min()), 0), max(int(whole.max()), length - 2)
    if lowest < -length or highest > 2 * length:  # a tiny image: one period of reflections has every position
        period = max(2 * (length - 1 + repeat_border), 1)
        whole %= np.int32(period)
        lowest, highest = 0, period - 1
    whole -= np.int32(lowest)
    source = reflect(np.arange(lowest, highest + 2), length, repeat_border=repeat_border) - lowest
    return _Axis(whole, remainder, source, slice(-lowest, length - lowest))


@dataclass(frozen=True)
class _Sampler:
    """Planes (channels, n, height, width) and the positions to sample them at."""

    rows: _Axis
    columns: _Axis
    extended: Planes

    @classmethod
    def at(cls, rows: _Axis, columns: _Axis, channels: int) -> _Sampler:
        """Make room for planes, which the caller writes."""
        shape = channels, len(rows.whole), len(rows.source), len(columns.source)
        return cls(rows, columns, np.empty(shape, np.float32))

    @property
    def planes(self) -> Planes:
        """The planes without their reflections, a view."""
        return self.extended[:, :, self.rows.itself, self.columns.itself]

    def sampled(self) -> Iterator[tuple[int, slice, NDArray[np.float32]]]:
        """Yield channel, rows and the values there (n, rows, width), which the next step overwrites."""
        self._reflect()
        count, height, width = self.rows.whole.shape
        stride = len(self.columns.source)
        flats = self.extended.reshape(len(self.extended), -1)
        starts = np.arange(count)[:, None, None] * self.extended[0, 0].size
        step = max(BAND_PIXELS // (count * width), 1)
        for band in (slice(start, start + step) for start in range(0, height, step)):
            within = self.rows.whole[:, band] * np.int32(stride)
            within += self.columns.whole[:, band]
            indices = within.astype(np.intp)
            if count > 1:
                indices += starts
            below, right = self.rows.remainder[:, band], self.columns.remainder[:, band]
            above, left = 1 - below, 1 - right
            corners = (1, above * right), (stride, below * left), (stride + 1, below * right)
            first = above * left
            total, value = np.empty((2, *indices.shape), np.float32)
            for channel, flat in enumerate(flats):
                flat.take(indices, out=total, mode="clip")  # nothing is clipped, but "raise" would copy the output
                total *= first
                for offset, weight in corners:
                    flat[offset:].take(indices, out=value, mode="clip")
                    value *= weight
                    total += value
                yield channel, band, total

    def _reflect(self) -> None:
        """Fill the sides from the planes."""
        middle, across, down = self.extended[:, :, self.rows.itself], self.columns, self.rows
        for side in (slice(across.itself.start), slice(across.itself.stop, None)):
            middle[..., side] = middle[..., across.source[side]]
        for side in (slice(down.itself.start), slice(down.itself.stop, None)):
            self.extended[:, :, side] = self.extended[:, :, down.source[side]]


def _way_back(jitter: NDArray[Any], height: int, width: int) -> NDArray[np.float64]:
    """Return affine maps (n, 2, 3) from the moved positions of three points to their original ones."""
    centre = np.array([width // 2, height // 2], np.float32)
    reach = np.float32(max(min(height, width) // 3, 1))
    before = centre + reach * np.array([[1, 1], [1, -1], [-1, -1]], np.float32)
    after = np.concatenate([before + jitter.astype(np.float32), np.ones((len(jitter), 3, 1))], axis=2)
    back = np.linalg.solve(after, np.broadcast_to(before, jitter.shape).astype(np.float64))
    transposed: NDArray[np.float64] = back.swapaxes(1, 2)
    return transposed


def _turned(jitter: NDArray[Any], height: int, width: int) -> tuple[_Axis, _Axis]:
    """Return the positions of affine maps, borders mirrored, rounded to 1/32 pixel as in OpenCV 4."""
    along_x, along_y = _along(jitter, height, width)

    def axis(index: int, length: int) -> _Axis:
        indices = along_x[:, index, None] + along_y[:, index, :, None]
        indices >>= 5
        remainder = (indices & 31).astype(np.float32)
        remainder *= ONE_32ND
        indices >>= 5
        return _axis(length, indices, remainder, repeat_border=False)

    return axis(1, height), axis(0, width)


def _along(jitter: NDArray[Any], height: int, width: int) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Return the shares of each column (n, 2, width) and row (n, 2, height) in the positions, in 1024ths."""
    back = _way_back(jitter, height, width)[..., None]
    along_x = _in_1024ths(back[:, :, 0] * np.arange(width))
    return along_x, _in_1024ths(back[:, :, 1] * np.arange(height) + back[:, :, 2]) + np.int32(16)


def _in_1024ths(positions: NDArray[np.float64]) -> NDArray[np.int32]:
    rounded: NDArray[np.int32] = np.rint(1024 * positions.clip(-FARTHEST, FARTHEST)).astype(np.int32)
    return rounded


def _displaced(across: NDArray[Any], down: NDArray[Any]) -> tuple[_Axis, _Axis]:
    """Return positions displaced by an offset each, borders reflected."""
    height, width = down.shape[1:]
    y, x = np.arange(height, dtype=np.int32)[:, None], np.arange(width, dtype=np.int32)
    return _split(height, y, down), _split(width, x, across)


def _split(length: int, indices: NDArray[np.int32], shifts: NDArray[Any]) -> _Axis:
    floor = np.floor(shifts)
    whole = floor.astype(np.int32)
    whole += indices
    remainder = np.subtract(shifts, floor, out=floor).astype(np.float32, copy=False)
    return _axis(length, whole, remainder, repeat_border=True)


@corruption(
    "elastic_transform",
    {
        "32": ((0, 0, 0), (0, 0, 2.56), (1.6, 6.4, 2.24), (2.56, 1.92, 1.92), (3.2, 1.28, 1.6), (3.2, 0.96, 0.96)),
        "64": ((0, 0, 0), (0, 0, 5.12), (3.2, 19.2, 3.84), (6.4, 5.12, 3.84), (6.4, 1.92, 1.92), (10.24, 1.92, 1.28)),
        "224": (
            (0, 999, 0),
            (488, 170.8, 24.4),
            (488, 19.52, 48.8),
            (12.2, 2.44, 4.88),
            (17.08, 2.44, 4.88),
            (29.28, 2.44, 4.88),
        ),
    },
    draw=lambda rng, image, *_: (signed_uniform(rng, (3, 2)), signed_uniform(rng, (2, *image.shape[:2]))),
    alias="elastic",
)
def elastic_transform(
    images: Images, jitter: NDArray[Any], fields: NDArray[Any], strength: float, sigma: float, reach: float
) -> Images:
    """Apply a random affine map and a smooth random displacement of every pixel."""
    height, width, channels = images.shape[1:]
    shifts = strength * _smooth(fields, sigma)
    if loops := fast.loops():
        shares = np.divide(np.arange(256), 255, dtype=np.float32)
        moved = np.empty_like(images)
        for image, across, down, shift, made in zip(
            images, *_along(reach * jitter, height, width), shifts, moved, strict=True
        ):
            turned = loops.turned(image, across, down, shares, ONE_32ND)
            made[:] = loops.displaced(turned, shift, np.float32(1), np.float32(255))
        return moved
    affine = _Sampler.at(*_turned(reach * jitter, height, width), channels)
    elastic = _Sampler.at(*_displaced(shifts[:, 0], shifts[:, 1]), channels)
    np.divide(np.moveaxis(images, -1, 0), 255, dtype=np.float32, out=affine.planes)
    for channel, band, values in affine.sampled():
        elastic.planes[channel, :, band] = values
    moved = np.empty_like(images)
    for channel, band, values in elastic.sampled():
        values *= 255  # at most 255 and a rounding error, which truncation removes
        moved[:, band, :, channel] = values
    return moved
