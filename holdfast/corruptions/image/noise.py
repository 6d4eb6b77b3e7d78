"""Noise of the sensor: Gaussian, shot, impulse and speckle noise."""

from __future__ import annotations

from functools import lru_cache
from math import inf
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import pdtr

from holdfast.corruptions import fast
from holdfast.corruptions.base import Images, Rng, corruption, quantise
from holdfast.corruptions.draws import normal, words


def _normal(rng: Rng, image: Images, *_: float) -> tuple[NDArray[Any]]:
    return (normal(rng, image.shape),)


def _levels(values: NDArray[Any]) -> Images:
    """Return values in levels as 8 bits, truncated; `values` is overwritten."""
    return np.clip(values, 0, 255, out=values).astype(np.uint8)


@corruption(
    "gaussian_noise",
    {
        "32": (0, 0.04, 0.06, 0.08, 0.09, 0.10),
        "64": (0, 0.04, 0.08, 0.12, 0.15, 0.18),
        "224": (0, 0.08, 0.12, 0.18, 0.26, 0.38),
    },
    draw=_normal,
)
def gaussian_noise(images: Images, noise: NDArray[Any], sigma: float) -> Images:
    """Add normal noise of equal strength everywhere, as in low light."""
    if loops := fast.loops():
        number = noise.dtype.type
        noisy = loops.added(images.reshape(-1), noise.reshape(-1), number(255 * sigma), number(255))
        return noisy.reshape(images.shape)  # type: ignore[no-any-return]
    noisy = noise * (255 * sigma)
    noisy += images
    return _levels(noisy)


def _photons(rng: Rng, image: Images, per_photon: float) -> tuple[Images]:
    if isinstance(rng, np.random.RandomState):
        return (quantise(rng.poisson(image / 255 * (1 / per_photon)) / (1 / per_photon)),)
    threshold, otherwise = _counted(per_photon)
    drawn = words(rng, image.shape, np.uint32)
    if loops := fast.loops():
        seen = loops.aliased(drawn.reshape(-1), np.ascontiguousarray(image).reshape(-1), threshold, otherwise)
        return (seen.reshape(image.shape),)
    column = drawn.astype(np.uint8)  # its last 8 bits
    entry = (image.astype(np.uint16) << 8) | column
    return (np.where(drawn < threshold.take(entry), column, otherwise.take(entry)),)


@lru_cache(maxsize=32)
def _counted(per_photon: float) -> tuple[NDArray[np.uint32], NDArray[np.uint8]]:
    """Return two tables of 256 levels by 256 columns that replace a slow Poisson draw by one random number.

    The noisy value of a level is again a level. By the alias method (Walker, ACM TOMS 1977) a 32-bit number selects
    a column; below its threshold the noisy level is the column, otherwise the column's alias.
    """
    levels = np.arange(256)
    # The largest number of photons that gives each level.
    largest = np.where(levels < 255, np.ceil((levels + 1) / 255 / per_photon - 1e-9) - 1, inf)
    shares = np.diff(pdtr(largest, levels[:, None] / 255 / per_photon), prepend=0, axis=1) * 256
    threshold, otherwise = np.ones((256, 256)), np.tile(levels.astype(np.uint8), (256, 1))
    for _ in range(255):  # the poorest column is filled from the richest and is then finished
        poor, rich = shares.argmin(axis=1), shares.argmax(axis=1)
        threshold[levels, poor] = shares[levels, poor]
        otherwise[levels, poor] = rich
        shares[levels, rich] -= 1 - shares[levels, poor]
        shares[levels, poor] = 1
    return (threshold * (2**32 - 1)).astype(np.uint32).ravel(), otherwise.ravel()


# Severity is linear in 1/c, the brightness of one photon: c photons are white.
@corruption(
    "shot_noise",
    {
        "32": [1 / photons for photons in (inf, 500, 250, 100, 75, 50)],
        "64": [1 / photons for photons in (inf, 250, 100, 50, 30, 15)],
        "224": [1 / photons for photons in (inf, 60, 25, 12, 5, 3)],
    },
    draw=_photons,
)
def shot_noise(_images: Images, seen: Images, _per_photon: float) -> Images:
    """Add Poisson noise of photon counts, stronger where the image is brighter."""
    return seen


def _impulses(rng: Rng, image: Images, share: float) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    if isinstance(rng, np.random.RandomState):
        return rng.random_sample(image.shape) < share, rng.random_sample(image.shape) < 0.5
    drawn = words(rng, image.shape, np.uint32)
    return drawn < round(share * 2**32), (drawn.astype(np.uint8) & 1).view(bool)


@corruption(
    "impulse_noise",
    {
        "32": (0, 0.01, 0.02, 0.03, 0.05, 0.07),
        "64": (0, 0.01, 0.02, 0.05, 0.08, 0.14),
        "224": (0, 0.03, 0.06, 0.09, 0.17, 0.27),
    },
    draw=_impulses,
)
def impulse_noise(images: Images, hit: NDArray[np.bool_], salt: NDArray[np.bool_], _share: float) -> Images:
    """Set a share of the channel values to black or white with equal probability: salt and pepper."""
    return np.where(hit, -salt.view(np.uint8), images)  # in 8 bits, -1 is 255


@corruption(
    "speckle_noise",
    {
        "32": (0, 0.06, 0.1, 0.12, 0.16, 0.2),
        "64": (0, 0.15, 0.2, 0.25, 0.3, 0.35),
        "224": (0, 0.15, 0.2, 0.35, 0.45, 0.6),
    },
    draw=_normal,
)
def speckle_noise(images: Images, noise: NDArray[Any], sigma: float) -> Images:
    """Add normal noise in proportion to each value."""
    if loops := fast.loops():
        number = noise.dtype.type
        noisy = loops.multiplied(images.reshape(-1), noise.reshape(-1), number(sigma), number(1), number(255))
        return noisy.reshape(images.shape)  # type: ignore[no-any-return]
    noisy = noise * sigma
    noisy += 1
    noisy *= images
    return _levels(noisy)
