"""Elastic transform: an affine map and a smooth displacement of every pixel."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from holdfast.corruptions.base import Images, Rng, corruption, images_of, planes_of
from holdfast.corruptions.draws import uniform
from holdfast.corruptions.image.blur import Blocks, blocks_of, smooth_rows
from holdfast.corruptions.image.border import reflect

__all__ = ["elastic_transform"]

Planes: TypeAlias = NDArray[np.float32]  # (channels, n, height, width)
Places: TypeAlias = tuple[NDArray[Any], NDArray[Any]]  # whole pixels and remainders
FARTHEST = 1e5  # pixels: a tiny image may be displaced by more than its size
ONE_32ND = np.float32(1 / 32)
BAND_PIXELS = 1 << 13  # so many values at a time fit in the cache


def _jitter_and_fields(rng: Rng, image: Images, *_: float) -> tuple[NDArray[Any], NDArray[Any]]:
    return 2 * uniform(rng, (3, 2)) - 1, 2 * uniform(rng, (2, *image.shape[:2])) - 1


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


def _resampled(planes: Planes, places: Callable[[slice], tuple[Places, Places]], *, repeat_border: bool) -> Planes:
    """Sample planes at other positions, whose rows and columns are computed for a band of rows at a time."""
    channels, count, height, width = planes.shape
    resampled = np.empty_like(planes)
    step = max(BAND_PIXELS // (count * width), 1)
    bands = [slice(start, start + step) for start in range(0, height, step)]
    found = [places(band) for band in bands]
    rows = _line(height, [rows for (rows, _), _ in found], repeat_border)
    columns = _line(width, [columns for _, (columns, _) in found], repeat_border)
    padded = planes.take(rows.source, axis=2).take(columns.source, axis=3)
    stride = padded.shape[3]
    plane = padded.shape[2] * stride
    flat = padded.reshape(-1)
    starts = (np.arange(count) * plane)[:, None, None]
    for band, ((row, down), (column, across)) in zip(bands, found, strict=True):
        first = (rows.inside(row) * np.int32(stride) + columns.inside(column)) + starts
        weights = [(1 - down) * (1 - across), (1 - down) * across, down * (1 - across), down * across]
        for channel in range(channels):
            part = flat[channel * count * plane :]
            total = part.take(first)
            total *= weights[0]
            for offset, weight in zip((1, stride, stride + 1), weights[1:], strict=True):
                value = part[offset:].take(first)
                value *= weight
                total += value
            resampled[channel, :, band] = total
    return resampled


@dataclass(frozen=True)
class _Line:
    """An axis with as much of its reflection on both sides as positions need."""

    source: NDArray[np.intp]  # of each place, on the axis itself
    lowest: int
    period: int  # 0: positions are not far outside

    def inside(self, places: NDArray[np.int32]) -> NDArray[np.int32]:
        """Return positions as places on this axis."""
        found: NDArray[np.int32] = places % np.int32(self.period) if self.period else places - np.int32(self.lowest)
        return found


def _line(length: int, places: Sequence[NDArray[np.int32]], repeat_border: bool) -> _Line:
    lowest, highest = min(int(each.min()) for each in places), max(int(each.max()) for each in places)
    period = 0
    if lowest < -length or highest > 2 * length:  # a tiny image: one period of reflections has every position
        period = max(2 * (length - 1 + repeat_border), 1)
        lowest, highest = 0, period - 1
    return _Line(reflect(np.arange(lowest, highest + 2), length, repeat_border=repeat_border), lowest, period)


def _way_back(jitter: NDArray[Any], height: int, width: int) -> NDArray[np.float64]:
    """Return affine maps (n, 2, 3) from the moved positions of three points to their original ones."""
    centre = np.array([width // 2, height // 2], np.float32)
    reach = np.float32(max(min(height, width) // 3, 1))
    before = centre + reach * np.array([[1, 1], [1, -1], [-1, -1]], np.float32)
    after = np.concatenate([before + jitter.astype(np.float32), np.ones((len(jitter), 3, 1))], axis=2)
    back = np.linalg.solve(after, np.broadcast_to(before, jitter.shape).astype(np.float64))
    transposed: NDArray[np.float64] = back.swapaxes(1, 2)
    return transposed


def _moved(planes: Planes, jitter: NDArray[Any]) -> Planes:
    """Apply affine maps to planes, borders mirrored, at positions rounded to 1/32 pixel as in OpenCV 4."""
    height, width = planes.shape[2:]
    back = _way_back(jitter, height, width)[..., None]
    along_x = _in_1024ths(back[:, :, 0] * np.arange(width))
    along_y = _in_1024ths(back[:, :, 1] * np.arange(height) + back[:, :, 2])

    def places(band: slice) -> tuple[Places, Places]:
        x, y = ((along_x[:, axis, None] + along_y[:, axis, band, None] + 16) >> 5 for axis in (0, 1))
        rows, columns = ((place >> 5, (place & 31).astype(np.float32) * ONE_32ND) for place in (y, x))
        return rows, columns

    return _resampled(planes, places, repeat_border=False)


def _in_1024ths(positions: NDArray[np.float64]) -> NDArray[np.int32]:
    rounded: NDArray[np.int32] = np.rint(1024 * positions.clip(-FARTHEST, FARTHEST)).astype(np.int32)
    return rounded


def _stretched(planes: Planes, across: NDArray[Any], down: NDArray[Any]) -> Planes:
    """Displace every pixel of planes by its own offset, borders reflected."""
    y, x = np.arange(planes.shape[2], dtype=np.int32)[:, None], np.arange(planes.shape[3], dtype=np.int32)

    def places(band: slice) -> tuple[Places, Places]:
        return _split(y[band], down[:, band]), _split(x, across[:, band])

    return _resampled(planes, places, repeat_border=True)


def _split(places: NDArray[np.int32], shifts: NDArray[Any]) -> Places:
    whole = np.floor(shifts)
    return places + whole.astype(np.int32), (shifts - whole).astype(np.float32)


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
    draw=_jitter_and_fields,
    alias="elastic",
)
def elastic_transform(
    images: Images, jitter: NDArray[Any], fields: NDArray[Any], strength: float, sigma: float, reach: float
) -> Images:
    """Apply a random affine map and a smooth random displacement of every pixel."""
    shifts = strength * _smooth(fields, sigma)
    return images_of(_stretched(_moved(planes_of(images), reach * jitter), shifts[:, 0], shifts[:, 1]))
