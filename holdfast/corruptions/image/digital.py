"""Digital corruptions: brightness, contrast, pixelation, JPEG compression and saturation."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from holdfast.corruptions import fast
from holdfast.corruptions.base import Images, corruption, images_of, planes_of, quantise
from holdfast.corruptions.storage import store_as_jpeg


@corruption(
    "brightness",
    {
        "32": (0, 0.05, 0.1, 0.15, 0.2, 0.3),
        "64": (0, 0.1, 0.2, 0.3, 0.4, 0.5),
        "224": (0, 0.1, 0.2, 0.3, 0.4, 0.5),
    },
)
def brightness(images: Images, shift: float) -> Images:
    """Raise the HSV value (the largest channel) of every pixel and keep hue and saturation."""
    if loops := fast.loops():
        return loops.by_largest(images.reshape(-1, 3), _lifted(shift)).reshape(images.shape)  # type: ignore[no-any-return]
    red, green, blue = np.moveaxis(images, -1, 0)
    rows = np.maximum(np.maximum(red, green), blue).astype(np.uint16) << 8
    return np.stack([_lifted(shift).reshape(-1).take(rows | channel) for channel in (red, green, blue)], axis=-1)


@lru_cache(maxsize=32)
def _lifted(shift: float) -> NDArray[np.uint8]:
    """Return the level of a channel by the largest channel and its own level, where it is not above the largest."""
    levels = np.arange(256)
    lifted = np.minimum(levels / 255 + shift, 1) * 255  # V' for each V
    gain = lifted / np.maximum(levels, 1)
    below = np.maximum(levels[:, None] - levels, 0)
    # rgb · V'/V, written so that the largest channel becomes exactly V' and black becomes grey.
    table: NDArray[np.uint8] = (lifted[:, None] - below * gain[:, None]).astype(np.uint8)
    return table


@corruption(
    "contrast",
    {
        "32": (1, 0.75, 0.5, 0.4, 0.3, 0.15),
        "64": (1, 0.4, 0.3, 0.2, 0.1, 0.05),
        "224": (1, 0.4, 0.3, 0.2, 0.1, 0.05),
    },
)
def contrast(images: Images, factor: float) -> Images:
    """Reduce the contrast: move every channel towards its mean over the image."""
    count, height, width, _ = images.shape
    loops = fast.loops()
    rows = images.reshape(count, height, -1)  # numpy is slow on the short axis of channels
    if loops:
        total = loops.channel_sums(images.reshape(count, -1, 3))
    else:
        total = rows.sum(axis=1, dtype=np.int64).reshape(count, width, 3).sum(axis=1)
    mean = (total / (height * width * 255))[..., None]
    levels = quantise((np.arange(256) / 255 - mean) * factor + mean)  # (n, 3, 256)
    if loops:
        return loops.by_channel(images.reshape(count, -1, 3), levels).reshape(images.shape)  # type: ignore[no-any-return]
    channel = np.tile(np.arange(0, 768, 256, dtype=np.uint16), width)
    return np.stack([table.reshape(-1).take(row + channel) for table, row in zip(levels, rows, strict=True)]).reshape(
        images.shape
    )


@corruption(
    "pixelate",
    {
        "32": (1, 0.95, 0.9, 0.85, 0.75, 0.65),
        "64": (1, 0.9, 0.8, 0.7, 0.6, 0.5),
        "224": (1, 0.6, 0.5, 0.4, 0.3, 0.25),
    },
)
def pixelate(images: Images, factor: float) -> Images:
    """Shrink with a box filter and enlarge again."""
    height, width = images.shape[1:3]
    rows, columns = (max(1, int(length * factor)) for length in (height, width))
    down, across = ((2 * np.arange(n) + 1) * m // (2 * n) for n, m in ((height, rows), (width, columns)))
    if loops := fast.loops():
        boxes = _boxes(height, rows), _boxes(width, columns)
        return np.stack([loops.pixelated(image, *boxes, down, across) for image in images])
    size, box = (columns, rows), Image.Resampling.BOX
    small = np.stack([np.asarray(Image.fromarray(image).resize(size, box)) for image in images])
    values = (3 * across[:, None] + np.arange(3)).ravel()  # by whole rows: numpy is slow on the short axis of channels
    enlarged: Images = small.reshape(-1, rows, 3 * columns).take(values, 2).take(down, 1)
    return enlarged.reshape(images.shape)


@lru_cache(maxsize=64)
def _boxes(length: int, count: int) -> tuple[NDArray[np.int64], ...]:
    """Return starts, stops and weights in 1/2²² of the boxes that Pillow averages to shrink an axis."""
    scale, pixels = length / count, np.arange(length)
    centres = (np.arange(count)[:, None] + 0.5) * scale
    away = (pixels - centres + 0.5) * (1 / scale)
    near = (pixels >= np.trunc(centres - scale / 2 + 0.5)) & (pixels < np.trunc(centres + scale / 2 + 0.5))
    inside = near & (away > -0.5) & (away <= 0.5)  # both bounds: they round differently
    starts, sizes = inside.argmax(axis=1), inside.sum(axis=1)
    return starts, starts + sizes, np.trunc(0.5 + 1 / sizes * (1 << 22)).astype(np.int64)


@corruption(
    "jpeg_compression",
    {
        "32": (95, 80, 65, 58, 50, 40),
        "64": (95, 65, 58, 50, 40, 25),
        "224": (85, 25, 18, 15, 10, 7),
    },
    alias="jpeg",
)
def jpeg_compression(images: Images, quality: float) -> Images:
    """Compress as JPEG and decode again."""
    return store_as_jpeg(images, round(quality))


@corruption(
    "saturate",
    {
        "32": ((1, 0), (0.3, 0), (0.1, 0), (1.5, 0), (2, 0.1), (2.5, 0.2)),
        "64": ((1, 0), (0.3, 0), (0.1, 0), (2, 0), (5, 0.1), (30, 0.2)),
        "224": ((1, 0), (0.3, 0), (0.1, 0), (2, 0), (5, 0.1), (20, 0.2)),
    },
    whole_severities=True,  # between 2 and 3 is the unchanged image
)
def saturate(images: Images, factor: float, shift: float) -> Images:
    """Reduce the saturation, at higher severities increase it, and keep hue and value."""
    if loops := fast.loops():
        return loops.saturated(images.reshape(-1, 3), *_saturations(factor, shift)).reshape(images.shape)  # type: ignore[no-any-return]
    channels = planes_of(images, np.float64)
    value, lowest = channels.max(axis=0), channels.min(axis=0)
    spread = value - lowest
    saturation = _saturation(value, spread, factor, shift)
    grey = spread == 0
    spread[grey] = 1
    for channel in channels:
        channel[:] = value * (1 - saturation * (1 - (channel - lowest) / spread))
    channels[0][grey] = value[grey]  # grey has no hue; the reference treats it as red
    return images_of(channels)


def _saturation(value: NDArray[Any], spread: NDArray[Any], factor: float, shift: float) -> NDArray[Any]:
    return np.clip(factor * (spread / np.where(value > 0, value, 1)) + shift, 0, 1)


@lru_cache(maxsize=8)
def _saturations(factor: float, shift: float) -> tuple[NDArray[Any], ...]:
    """Return the tables of `compiled.saturated`."""
    shares = np.arange(256) / 255
    value = shares[:, None]
    saturation = _saturation(value, value - shares, factor, shift)
    return shares, saturation, quantise(shares.copy()), quantise(value * (1 - saturation))
