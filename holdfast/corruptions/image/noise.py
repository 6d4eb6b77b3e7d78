"""Noise: the sensor, not the scene."""

from __future__ import annotations

from math import inf
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.corruptions.base import Images, Rng, corruption, quantise

__all__ = ["gaussian_noise", "impulse_noise", "shot_noise", "speckle_noise"]


def _normal(rng: Rng, image: Images, *_: float) -> tuple[NDArray[Any]]:
    return (rng.standard_normal(image.shape),)


def _two_uniform(rng: Rng, image: Images, *_: float) -> tuple[NDArray[Any], NDArray[Any]]:
    return rng.random(image.shape), rng.random(image.shape)


def _photons(rng: Rng, image: Images, per_photon: float) -> tuple[NDArray[Any]]:
    return (rng.poisson(image / 255 * (1 / per_photon)),)


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
    """Add normal noise of equal strength everywhere: too little light, read out electronically."""
    return quantise(images / 255 + sigma * noise)


# Severity moves on a line in 1/c, the brightness of one photon, where c photons make full white.
@corruption(
    "shot_noise",
    {
        "32": [1 / photons for photons in (inf, 500, 250, 100, 75, 50)],
        "64": [1 / photons for photons in (inf, 250, 100, 50, 30, 15)],
        "224": [1 / photons for photons in (inf, 60, 25, 12, 5, 3)],
    },
    draw=_photons,
)
def shot_noise(images: Images, photons: NDArray[Any], per_photon: float) -> Images:
    """Count photons instead of measuring light: Poisson noise, stronger where it is brighter."""
    return quantise(photons / (1 / per_photon))


@corruption(
    "impulse_noise",
    {
        "32": (0, 0.01, 0.02, 0.03, 0.05, 0.07),
        "64": (0, 0.01, 0.02, 0.05, 0.08, 0.14),
        "224": (0, 0.03, 0.06, 0.09, 0.17, 0.27),
    },
    draw=_two_uniform,
)
def impulse_noise(images: Images, hit: NDArray[Any], salt: NDArray[Any], share: float) -> Images:
    """Set a share of the channel values to black or white, each half of the time: salt and pepper."""
    return np.where(hit < share, np.where(salt < 0.5, np.uint8(255), np.uint8(0)), images)


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
    values = images / 255
    return quantise(values + values * (sigma * noise))
