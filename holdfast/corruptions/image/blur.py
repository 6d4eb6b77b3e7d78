"""Defocus and Gaussian blur."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import fft, ndimage

from holdfast.corruptions.base import Images, corruption, images_of, planes_of, quantise
from holdfast.corruptions.image.border import reflect
from holdfast.corruptions.image.truncation import ROUNDING, Boxes, Levels, truncated

SETTLE = np.float32(2**-10 / 255)  # a thousandth of a level, so that float32 rounding does not truncate a whole level
BLOCK = 64  # rows
NARROW = 24  # rows, where the order of float32 sums does not matter
Blocks: TypeAlias = list[tuple[slice, slice, NDArray[Any]]]


def gaussian(values: NDArray[Any], sigma: float) -> NDArray[Any]:
    """Smooth layers (n, height, width) or images (n, height, width, channels) with a Gaussian truncated at 4 sigma.

    Borders are replicated, and sums have the order of the published code, so results agree to the last bit.
    """
    return ndimage.gaussian_filter(values, sigma, axes=(1, 2), mode="nearest", truncate=4)  # type: ignore[no-any-return]


def quick_gaussian(layers: NDArray[Any], sigma: float) -> NDArray[Any]:
    """Smooth layers (..., height, width) like `gaussian`, but faster and with float32 precision."""
    for length in layers.shape[-2:]:
        layers = smooth_rows(layers, _replicating(length, sigma))
    return layers


@lru_cache(maxsize=64)
def _replicating(length: int, sigma: float, rows: int = BLOCK) -> Blocks:
    weights = ndimage.gaussian_filter1d(np.eye(length), sigma, axis=0, mode="nearest", truncate=4)
    return blocks_of(weights.astype(np.float32), int(4 * sigma + 0.5), rows)


def blocks_of(matrix: NDArray[Any], reach: int, size: int = BLOCK) -> Blocks:
    """Return a band matrix of half-width `reach` as blocks: rows, columns and weights."""
    starts = range(0, len(matrix), size)
    slices = [(slice(start, start + size), slice(max(start - reach, 0), start + size + reach)) for start in starts]
    return [(rows, near, matrix[rows, near].copy()) for rows, near in slices]


def smooth_rows(layers: NDArray[Any], blocks: Blocks) -> NDArray[Any]:
    """Multiply a band matrix with layers (..., height, width) and return (..., width, height): one pass of a filter."""
    smooth = np.empty_like(layers)
    for rows, near, weights in blocks:
        np.matmul(weights, layers[..., near, :], out=smooth[..., rows, :])
    return np.ascontiguousarray(smooth.swapaxes(-1, -2))


def blurred(planes: Levels, sigma: float) -> Levels:
    """Return planes (n, height, width) smoothed as by `gaussian` and truncated to whole levels.

    >>> blurred(np.full((1, 3, 3), 10, np.uint8), 1.5).tolist()[0][0]
    [10, 10, 10]
    """
    blur = Blurred(planes, sigma)
    if blur.reach <= 2:  # few operations
        return blur.everywhere()
    # Both directions have an operation for each tap, and their weights and values are rounded.
    return truncated(blur.levels(), (4 * blur.reach + 8) * ROUNDING, planes, blur.boxes(), blur)


@dataclass(frozen=True)
class Blurred:
    """Planes (n, height, width) smoothed with a Gaussian."""

    planes: Levels
    sigma: float

    @property
    def reach(self) -> int:
        """The number of taps on each side."""
        return int(4 * self.sigma + 0.5)

    def levels(self) -> NDArray[np.float32]:
        """Return the levels in float32."""
        values, height, width = self.planes.astype(np.float32), *self.planes.shape[1:]
        tall, smooth = np.empty_like(values), np.empty_like(values)
        for rows, near, weights in _replicating(height, self.sigma, NARROW):
            np.matmul(weights, values[:, near], out=tall[:, rows])
        for columns, near, weights in _replicating(width, self.sigma, NARROW):
            np.matmul(tall[:, :, near], weights.T, out=smooth[:, :, columns])
        return smooth

    def boxes(self) -> Boxes:
        """Return the box of each pixel."""
        edges = [self._near(np.arange(length), length)[[0, -1]] for length in self.planes.shape[1:]]
        return Boxes(*edges[0], *edges[1])

    def everywhere(self) -> Levels:
        """Return the levels with the operations of the published code, in float64."""
        return quantise(gaussian(self.planes / 255, self.sigma))

    def at(self, indices: NDArray[np.intp]) -> Levels:
        """Return some levels with the operations of `everywhere`."""
        height, width = self.planes.shape[1:]
        start, x = np.divmod(indices, width)
        y = start % height
        rows, columns = (start - y + self._near(y, height)) * width, self._near(x, width)
        windows = self.planes.reshape(-1).take(rows[:, None] + columns)
        return quantise(self._summed(self._summed(windows / 255)))

    def constants(self) -> Levels:
        """Return the level of each constant image."""
        return Blurred(np.arange(256, dtype=np.uint8).reshape(256, 1, 1), self.sigma).everywhere().reshape(-1)

    def _near(self, indices: NDArray[np.intp], length: int) -> NDArray[np.intp]:
        offsets = np.arange(-self.reach, self.reach + 1)[:, None]
        near: NDArray[np.intp] = (indices + offsets).clip(0, length - 1)
        return near

    def _summed(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Sum the first axis in the order of SciPy: the middle, then pairs from the outermost to the innermost."""
        weights = taps(self.sigma)
        total: NDArray[np.float64] = values[self.reach] * weights[self.reach]
        for tap in range(self.reach):
            total += (values[tap] + values[-1 - tap]) * weights[tap]
        return total


@lru_cache(maxsize=64)
def taps(sigma: float) -> NDArray[np.float64]:
    """Return the weights of a Gaussian truncated at 4 sigma."""
    reach = int(4 * sigma + 0.5)
    middle = np.eye(1, 2 * reach + 1, reach)[0]
    return ndimage.gaussian_filter1d(middle, sigma, mode="constant", truncate=4)  # type: ignore[no-any-return]


@lru_cache(maxsize=64)
def disk(radius: float, alias_sigma: float) -> NDArray[np.float32]:
    """Return the kernel of a lens out of focus: a disk with its edge smoothed by a small Gaussian.

    The Gaussian is reflected at the border of the published grid, so the sum exceeds 1 from radius 7 on.

    >>> disk(1, 0.01).tolist()[1]
    [0.20000000298023224, 0.20000000298023224, 0.20000000298023224]
    """
    grid = np.arange(-8, 9) if radius <= 8 else np.arange(-radius, radius + 1)
    inside = np.add.outer(grid**2, grid**2) <= radius**2
    reach = 1 if radius <= 8 else 2
    taps = np.exp(-(np.arange(-reach, reach + 1) ** 2) / (2 * alias_sigma**2))
    kernel = inside / inside.sum()
    for axis in (0, 1):
        kernel = ndimage.correlate1d(kernel, taps / taps.sum(), axis, mode="mirror")
    kernel = np.where(kernel > 1e-9, kernel, 0).astype(np.float32)  # drop weights below a millionth of a level
    empty = int(np.argmax(kernel.any(axis=0)))  # rows and columns on each side
    kernel = kernel[empty : len(kernel) - empty, empty : len(kernel) - empty]
    kernel.flags.writeable = False  # the cache returns this array itself
    return kernel


@lru_cache(maxsize=16)
def _disk_spectrum(radius: float, alias_sigma: float, shape: tuple[int, int]) -> NDArray[np.complex64]:
    return fft.rfft2(disk(radius, alias_sigma)[::-1, ::-1], shape)  # type: ignore[no-any-return]


def _defocused(plane: NDArray[np.float32], radius: float, alias_sigma: float) -> NDArray[np.float32]:
    height, width = plane.shape
    last = len(disk(radius, alias_sigma)) - 1
    before = (last + 1) // 2
    rows, columns = (
        reflect(np.arange(-before, length + last - before), length, repeat_border=False) for length in (height, width)
    )
    padded = plane.take(rows, 0).take(columns, 1)
    shape = (fft.next_fast_len(len(rows), real=True), fft.next_fast_len(len(columns), real=True))
    spectrum = fft.rfft2(padded, shape)
    spectrum *= _disk_spectrum(radius, alias_sigma, shape)
    return fft.irfft2(spectrum, shape)[last : last + height, last : last + width]  # type: ignore[no-any-return]


@corruption(
    "defocus_blur",
    {
        "32": ((0, 0), (0.3, 0.4), (0.4, 0.5), (0.5, 0.6), (1, 0.2), (1.5, 0.1)),
        "64": ((0, 0), (0.5, 0.6), (1, 0.1), (1.5, 0.1), (2.5, 0.01), (3, 0.1)),
        "224": ((0, 0), (3, 0.1), (4, 0.5), (6, 0.5), (8, 0.5), (10, 0.5)),
    },
)
def defocus_blur(images: Images, radius: float, alias_sigma: float) -> Images:
    """Blur with a disk, like a lens out of focus."""
    kernel = disk(radius, alias_sigma)
    if np.count_nonzero(kernel) <= 40:
        return quantise(ndimage.correlate(images / 255, kernel[None, :, :, None], mode="mirror"))
    # Float32 is three times as fast as float64, and 0.1 % of values are one level off. One plane at a time, so that no
    # result can depend on its neighbours through the order of float operations.
    planes = planes_of(images)
    for plane in planes.reshape(-1, *planes.shape[2:]):
        plane[:] = _defocused(plane, radius, alias_sigma)
    return images_of(planes + SETTLE)


@corruption(
    "gaussian_blur",
    {
        "32": (0, 0.4, 0.6, 0.7, 0.8, 1),
        "64": (0, 0.5, 0.75, 1, 1.25, 1.5),
        "224": (0, 1, 2, 3, 4, 6),
    },
)
def gaussian_blur(images: Images, sigma: float) -> Images:
    """Blur with a Gaussian."""
    return images_of(quick_gaussian(planes_of(images), sigma) + SETTLE)
