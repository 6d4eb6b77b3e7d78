"""Blur: the lens and the hand that holds it."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import fft, ndimage

from holdfast.corruptions.base import Images, corruption, quantise

__all__ = ["correlate", "defocus_blur", "disk", "gaussian", "gaussian_blur"]

SETTLE = 2**-10 / 255  # a thousandth of a level: float32 noise below a level must not cost the whole level


def gaussian(values: NDArray[Any], sigma: float) -> NDArray[Any]:
    """Smooth images (n, height, width, channels) with a Gaussian cut off at 4 sigma, borders replicated."""
    smooth: NDArray[Any] = ndimage.gaussian_filter(values, (0, sigma, sigma, 0), mode="nearest", truncate=4)
    return smooth


@lru_cache(maxsize=64)
def disk(radius: float, alias_sigma: float) -> NDArray[np.float32]:
    """Return the kernel of a lens out of focus: a disk whose edge is softened by a small Gaussian.

    The Gaussian is reflected at the border of the published grid, so from radius 7 on the sum exceeds 1.

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
    kernel = np.where(kernel > 1e-9, kernel, 0).astype(np.float32)  # less than a millionth of a level is nothing
    empty = int(np.argmax(kernel.any(axis=0)))  # rows and columns on each side
    kernel = kernel[empty : len(kernel) - empty, empty : len(kernel) - empty]
    kernel.flags.writeable = False  # the cache hands out this very array
    return kernel


def correlate(images: Images, kernel: NDArray[np.float32]) -> Images:
    """Correlate images (n, height, width, channels) with a square kernel, borders mirrored."""
    if np.count_nonzero(kernel) <= 40:
        return quantise(ndimage.correlate(images / 255, kernel[None, :, :, None], mode="mirror"))
    # One image at a time, so that no result can depend on its neighbours through the order of float operations.
    return np.stack([_correlate_by_fourier(image, kernel) for image in images])


def _correlate_by_fourier(image: NDArray[np.uint8], kernel: NDArray[np.float32]) -> NDArray[np.uint8]:
    height, width, _ = image.shape
    side = len(kernel)
    border = (side // 2, (side - 1) // 2)
    padded = np.pad(np.moveaxis(image, -1, 0), ((0, 0), border, border), mode="reflect")
    shape = [fft.next_fast_len(length, real=True) for length in padded.shape[1:]]
    values = np.divide(
        padded, 255, dtype=np.float32
    )  # three times as fast as float64, for .1 % of values one level off
    spectrum = fft.rfft2(values, shape) * fft.rfft2(kernel[::-1, ::-1], shape)
    blurred = fft.irfft2(spectrum, shape)[:, side - 1 : side - 1 + height, side - 1 : side - 1 + width]
    return np.moveaxis(quantise(blurred + SETTLE), 0, -1)


@corruption(
    "defocus_blur",
    {
        "32": ((0, 0), (0.3, 0.4), (0.4, 0.5), (0.5, 0.6), (1, 0.2), (1.5, 0.1)),
        "64": ((0, 0), (0.5, 0.6), (1, 0.1), (1.5, 0.1), (2.5, 0.01), (3, 0.1)),
        "224": ((0, 0), (3, 0.1), (4, 0.5), (6, 0.5), (8, 0.5), (10, 0.5)),
    },
)
def defocus_blur(images: Images, radius: float, alias_sigma: float) -> Images:
    """Spread every point over a disk: a lens out of focus."""
    return correlate(images, disk(radius, alias_sigma))


@corruption(
    "gaussian_blur",
    {
        "32": (0, 0.4, 0.6, 0.7, 0.8, 1),
        "64": (0, 0.5, 0.75, 1, 1.25, 1.5),
        "224": (0, 1, 2, 3, 4, 6),
    },
)
def gaussian_blur(images: Images, sigma: float) -> Images:
    """Smooth with a Gaussian."""
    return quantise(gaussian(images / 255, sigma))
