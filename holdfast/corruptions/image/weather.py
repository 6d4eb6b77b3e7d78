"""Snow and fog."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.corruptions import fast
from holdfast.corruptions.base import Images, corruption, images_of, planes_of, quantise
from holdfast.corruptions.draws import normal, uniform
from holdfast.corruptions.image.motion import trail
from holdfast.corruptions.image.zoom import zoom_taps


def _enlarged(layers: NDArray[Any], factor: float) -> NDArray[Any]:
    for axis in (1, 2):
        first, second, share = zoom_taps(layers.shape[axis], factor)
        share = share.astype(layers.dtype).reshape((-1, 1) if axis == 1 else (1, -1))
        layers = layers.take(first, axis) * (1 - share) + layers.take(second, axis) * share
    return layers


@corruption(
    "snow",
    {
        "32": (
            (0.1, 0.2, 1, 1, 8, 3, 1),
            (0.1, 0.2, 1, 0.6, 8, 3, 0.95),
            (0.1, 0.2, 1, 0.5, 10, 4, 0.9),
            (0.15, 0.3, 1.75, 0.55, 10, 4, 0.9),
            (0.25, 0.3, 2.25, 0.6, 12, 6, 0.85),
            (0.3, 0.3, 1.25, 0.65, 14, 12, 0.8),
        ),
        "64": (
            (0.1, 0.2, 1, 1, 8, 3, 1),
            (0.1, 0.2, 1, 0.6, 8, 3, 0.8),
            (0.1, 0.2, 1, 0.5, 10, 4, 0.8),
            (0.15, 0.3, 1.75, 0.55, 10, 4, 0.7),
            (0.25, 0.3, 2.25, 0.6, 12, 6, 0.65),
            (0.3, 0.3, 1.25, 0.65, 14, 12, 0.6),
        ),
        "224": (
            (0.1, 0.3, 3, 1, 10, 4, 1),
            (0.1, 0.3, 3, 0.5, 10, 4, 0.8),
            (0.2, 0.3, 2, 0.5, 12, 4, 0.7),
            (0.55, 0.3, 4, 0.9, 12, 8, 0.7),
            (0.55, 0.3, 4.5, 0.85, 12, 8, 0.65),
            (0.55, 0.3, 2.5, 0.85, 12, 12, 0.55),
        ),
    },
    draw=lambda rng, image, *_: (normal(rng, image.shape[:2]), rng.uniform(-135, -45)),
)
def snow(
    images: Images,
    flakes: NDArray[Any],
    degrees: NDArray[np.float64],
    mean: float,
    spread: float,
    size: float,
    threshold: float,
    radius: float,
    sigma: float,
    colour_share: float,
) -> Images:
    """Whiten the image and add blurred flakes that fall from both sides."""
    layers = _enlarged(mean + spread * flakes, size)
    layers[layers < threshold] = 0
    fallen = np.divide(trail(quantise(layers)[..., None], degrees, radius, sigma)[..., 0], 255, dtype=flakes.dtype)
    fallen += fallen[:, ::-1, ::-1].copy()
    if loops := fast.loops():
        shares = np.divide(np.arange(256), 255, dtype=np.float32)
        weights = np.array([0.299, 0.587, 0.114, 1.5, 0.5, colour_share, 1 - colour_share], np.float32)
        white = flakes.dtype.type(255)
        snowed = np.empty_like(images)
        for image, flake, made in zip(images, fallen, snowed, strict=True):
            made[:] = loops.snowed(image, flake, shares, weights, white)
        return snowed
    planes = planes_of(images)
    grey = 0.299 * planes[0] + 0.587 * planes[1] + 0.114 * planes[2]
    pale = np.maximum(planes, 1.5 * grey + 0.5)
    return images_of(colour_share * planes + (1 - colour_share) * pale + fallen)


def plasma(noise: NDArray[Any], side: int, decay: float) -> NDArray[Any]:
    """Return clouds (n, side, side) from 0 to 1, by the diamond-square algorithm on uniform noise (n, side² - 1).

    Fournier, Fussell & Carpenter, Communications of the ACM 1982, on a torus. The side is a power of two.
    """
    clouds = np.zeros((len(noise), 1, 1), noise.dtype)
    amplitude, used = 100.0, 0
    while (count := clouds.shape[1]) < side:
        fields = noise[:, used : used + 3 * count**2].reshape(-1, 3, count, count)
        used += 3 * count**2
        if loops := fast.loops():
            numbers = [noise.dtype.type(number) for number in (amplitude, 2 * amplitude, 0.25)]
            clouds = np.stack([loops.refined(*each, *numbers) for each in zip(clouds, fields, strict=True)])
            amplitude /= decay
            continue
        # As published the amplitude is squared: it falls with the square of the decay.
        fields = amplitude * (2 * amplitude * fields - amplitude)
        pairs = clouds + _next(clouds, 1)
        centres = (pairs + _next(pairs, 2)) / 4 + fields[:, 0]
        finer = np.empty((len(noise), 2 * count, 2 * count), noise.dtype)
        finer[:, ::2, ::2], finer[:, 1::2, 1::2] = clouds, centres
        finer[:, ::2, 1::2] = ((centres + _previous(centres, 1)) + (clouds + _next(clouds, 2))) / 4 + fields[:, 1]
        finer[:, 1::2, ::2] = ((centres + _previous(centres, 2)) + pairs) / 4 + fields[:, 2]
        clouds, amplitude = finer, amplitude / decay
    clouds -= clouds.min(axis=(1, 2), keepdims=True)
    clouds /= clouds.max(axis=(1, 2), keepdims=True)
    return clouds


def _next(values: NDArray[Any], axis: int) -> NDArray[Any]:
    first, rest = np.split(values, [1], axis)
    return np.concatenate([rest, first], axis)


def _previous(values: NDArray[Any], axis: int) -> NDArray[Any]:
    rest, last = np.split(values, [-1], axis)
    return np.concatenate([last, rest], axis)


def _map_side(height: int, width: int) -> int:
    """Return the power of two that covers the image, at least 2, because a map of one point has no clouds."""
    return 1 << (max(height, width, 2) - 1).bit_length()


@corruption(
    "fog",
    {
        "32": ((0, 3), (0.2, 3), (0.5, 3), (0.75, 2.5), (1, 2), (1.5, 1.75)),
        "64": ((0, 3), (0.4, 3), (0.7, 3), (1, 2.5), (1.5, 2), (2, 1.75)),
        "224": ((0, 2), (1.5, 2), (2, 2), (2.5, 1.7), (2.5, 1.5), (3, 1.4)),
    },
    draw=lambda rng, image, *_: (uniform(rng, (_map_side(*image.shape[:2]) ** 2 - 1,)),),
)
def fog(images: Images, noise: NDArray[Any], strength: float, decay: float) -> Images:
    """Add clouds that are as bright as the brightest point of the image."""
    height, width = images.shape[1:3]
    clouds = plasma(noise, _map_side(height, width), decay)[:, :height, :width]
    brightest = (images.max(axis=(1, 2, 3)) / 255).astype(noise.dtype)[:, None, None]
    if loops := fast.loops():
        number = noise.dtype.type
        shares = np.divide(np.arange(256), 255, dtype=noise.dtype)
        fogged = np.empty_like(images)
        for image, cloud, bright, made in zip(images, strength * clouds, brightest[:, 0, 0], fogged, strict=True):
            made[:] = loops.fogged(image, cloud, shares, bright, bright + number(strength), number(255))
        return fogged
    planes = planes_of(images, noise.dtype)
    planes += strength * clouds
    planes *= brightest
    planes /= brightest + strength
    return images_of(planes)
