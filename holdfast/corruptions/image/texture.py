"""Procedural textures with the colours, contrast and grain of frost."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import fft
from scipy.special import gammaincinv

from holdfast.randomness import seeded_rng

HEIGHT, WIDTH = 448, 640  # pixels
STRETCH = 1.8  # crystals are longer than wide


class Ice(NamedTuple):
    """Parameters of one texture; the exponents are fitted to gradients of photographs, at full size and at 1/5."""

    mean: tuple[float, float, float]  # of red, green and blue
    spread: tuple[float, float, float]
    skewness: float
    exponent: float  # of the power spectrum
    ridges: float  # weight of crystal edges
    veil: float = 0  # weight of a second pattern in green and blue


TEAL_WINDOW = Ice((78, 149, 166), (27, 16.5, 15), 0.5, 2.2, 0.4, veil=0.6)
BRIGHT_FROST = Ice((196, 200, 209), (21.5, 22, 22.5), -0.95, 1.95, 0.4)
GREY_CRYSTALS = Ice((140, 155, 167), (28.5, 28.5, 30), 0.1, 1.8, 0.4)
COARSE_CRYSTALS = Ice((101, 112, 124), (44, 43, 42), 0.5, 2.0, 0.5)


@lru_cache(maxsize=1)
def ice_textures() -> list[NDArray[np.uint8]]:
    """Return five fixed textures (448, 640, 3); the bright one occurs twice, as in the published set."""
    looks = TEAL_WINDOW, BRIGHT_FROST, GREY_CRYSTALS, COARSE_CRYSTALS
    teal, bright, grey, coarse = (_texture(look, seeded_rng(0, "ice", index)) for index, look in enumerate(looks))
    return [teal, bright, bright, grey, coarse]


def _texture(look: Ice, rng: np.random.Generator) -> NDArray[np.uint8]:
    base = _noise(rng, look.exponent)
    crystals = [1 - np.abs(_noise(rng, look.exponent + 1.2, STRETCH, angle)) for angle in rng.uniform(0, np.pi, 3)]
    ridges = _standardised(np.max(crystals, axis=0))
    pattern = _with_skewness(np.sqrt(1 - look.ridges**2) * base + look.ridges * ridges, look.skewness)
    veil = _standardised(np.sqrt(1 - look.veil**2) * pattern + look.veil * base)
    colours = np.array(look.mean) + np.array(look.spread) * np.stack([pattern, veil, veil], axis=-1)
    levels: NDArray[np.uint8] = np.rint(colours.clip(0, 255)).astype(np.uint8)
    return levels


def _noise(rng: np.random.Generator, exponent: float, stretch: float = 1, angle: float = 0) -> NDArray[np.float64]:
    """Return noise whose power falls with frequency, stretched along an angle."""
    down, across = np.fft.fftfreq(HEIGHT)[:, None], np.fft.rfftfreq(WIDTH)
    along = stretch * (np.cos(angle) * across + np.sin(angle) * down)
    frequency = np.hypot(along, np.cos(angle) * down - np.sin(angle) * across)
    frequency[0, 0] = np.inf  # no mean
    real, imaginary = rng.standard_normal((2, *frequency.shape))
    return _standardised(fft.irfft2((real + 1j * imaginary) * frequency ** (-exponent / 2), (HEIGHT, WIDTH)))


def _standardised(values: NDArray[np.float64]) -> NDArray[np.float64]:
    standardised: NDArray[np.float64] = (values - values.mean()) / values.std()
    return standardised


def _with_skewness(values: NDArray[np.float64], skewness: float) -> NDArray[np.float64]:
    """Return values mapped by rank to a gamma distribution, mirrored for negative skewness."""
    shape = 4 / skewness**2
    shares = (np.arange(4096) + 0.5) / 4096
    quantiles = np.sort(np.sign(skewness) * (gammaincinv(shape, shares) - shape) / np.sqrt(shape))
    ordered = np.empty(values.size)
    ordered[np.argsort(values, axis=None)] = np.interp(np.linspace(0, 1, values.size), shares, quantiles)
    return ordered.reshape(values.shape)
