"""Glass blur: pixels exchanged with their neighbours."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.corruptions.base import Images, Rng, corruption, quantise
from holdfast.corruptions.draws import integers
from holdfast.corruptions.image.blur import gaussian

__all__ = ["glass_blur", "sources", "whole"]


def whole(reach: float, passes: float) -> tuple[int, int]:
    """Return the largest offset and the number of passes for quantities interpolated between severities."""
    return round(max(reach, 1)), round(passes)


def _offsets(rng: Rng, image: Images, _sigma: float, reach: float, passes: float) -> tuple[NDArray[Any]]:
    farthest, times = whole(reach, passes)
    rows, columns = (max(0, length - 2 * farthest) for length in image.shape[:2])
    return (integers(rng, -farthest, farthest, (times, rows * columns, 2)),)


def sources(offsets: NDArray[Any], height: int, width: int, reach: int) -> NDArray[np.intp]:
    """Return the source of each pixel of n images in one pass, as indices into all n * height * width.

    A pass visits the inner pixels from the last to the first and copies to each the pixel at its offset. If that pixel
    was already overwritten in this pass, its own source counts: pointers are followed to their ends, in doubling
    steps.
    """
    places = np.arange(len(offsets) * height * width).reshape(-1, height, width)
    inner = np.s_[:, reach + 1 : height - reach + 1, reach + 1 : width - reach + 1]
    rewritten = np.zeros(places.shape, bool)
    rewritten[inner] = True
    targets, ends = places.copy(), places.copy()
    here = places[inner]
    across, down = np.moveaxis(offsets[:, ::-1], 2, 0).reshape(2, *here.shape)
    targets[inner] = there = here + (down * width + across)
    ends[inner] = np.where((there > here) & rewritten.ravel().take(there), there, here)
    ends = ends.ravel()
    while not np.array_equal(farther := ends.take(ends), ends):
        ends = farther
    found: NDArray[np.intp] = targets.ravel().take(ends)
    return found


@corruption(
    "glass_blur",
    {
        "32": ((0, 1, 0), (0.05, 1, 1), (0.25, 1, 1), (0.4, 1, 1), (0.25, 1, 2), (0.4, 1, 2)),
        "64": ((0, 1, 0), (0.1, 1, 1), (0.5, 1, 1), (0.6, 1, 2), (0.7, 2, 1), (0.9, 2, 2)),
        "224": ((0, 0, 0), (0.7, 1, 2), (0.9, 2, 1), (1, 2, 3), (1.1, 3, 2), (1.5, 4, 2)),
    },
    draw=_offsets,
)
def glass_blur(images: Images, offsets: NDArray[Any], sigma: float, reach: float, passes: float) -> Images:
    """Blur, copy pixels from random neighbours, and blur again, as through frosted glass."""
    height, width = images.shape[1:3]
    shuffled = quantise(gaussian(images / 255, sigma)).reshape(-1, 3)
    for each in np.moveaxis(offsets, 1, 0):
        shuffled = shuffled.take(sources(each, height, width, whole(reach, passes)[0]), axis=0)
    return quantise(gaussian(shuffled.reshape(images.shape) / 255, sigma))
