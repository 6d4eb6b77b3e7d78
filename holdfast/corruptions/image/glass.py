"""Glass blur: pixels exchanged with their neighbours."""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.corruptions import fast
from holdfast.corruptions.base import Images, Rng, corruption
from holdfast.corruptions.draws import integers
from holdfast.corruptions.image.blur import blurred, taps


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
    inner = np.s_[:, reach + 1 : height - reach + 1, reach + 1 : width - reach + 1]
    steps = offsets[:, ::-1, 1] * width + offsets[:, ::-1, 0]

    def moved(steps: NDArray[Any]) -> NDArray[np.intp]:
        indices = np.arange(len(offsets) * height * width)
        here = indices.reshape(-1, height, width)[inner]
        here += steps.reshape(here.shape)
        return indices

    targets = moved(steps)
    if not (steps > 0).any():  # as with a reach of 1: all pixels are copied before they are overwritten
        return targets
    ends = moved(np.maximum(steps, 0))
    for _ in range(2):  # most pixels are at their ends after four pointers
        ends = ends.take(ends)
    farther = ends.take(ends)
    moving = np.flatnonzero(farther != ends)
    ends = farther
    while len(moving):
        reached = ends.take(moving)
        farther = ends.take(reached)
        ends[moving] = farther
        moving = moving[farther != reached]
    pixels: NDArray[np.intp] = targets.take(ends)
    return pixels


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
    count, height, width, channels = images.shape
    if loops := fast.loops():
        moved = loops.blurred(np.ascontiguousarray(images), taps(sigma))
        loops.exchanged(moved, offsets, whole(reach, passes)[0])
        return loops.blurred(moved, taps(sigma))  # type: ignore[no-any-return]
    planes = blurred(np.ascontiguousarray(np.moveaxis(images, -1, 0)).reshape(-1, height, width), sigma)
    swaps = [sources(each, height, width, whole(reach, passes)[0]) for each in np.moveaxis(offsets, 1, 0)]
    if swaps:
        planes = planes.reshape(channels, -1).take(reduce(np.take, swaps), axis=1).reshape(planes.shape)
    return np.stack(list(blurred(planes, sigma).reshape(channels, count, height, width)), axis=-1)
