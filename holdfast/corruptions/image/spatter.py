"""Spatter: drops of water or mud on the lens.

Water needs edge detection, a distance transform and histogram equalisation, each as in OpenCV, which the published code
uses; they are short enough to be implemented here, for a stack of layers at once.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from holdfast.corruptions.base import Images, corruption, images_of, planes_of, quantise
from holdfast.corruptions.draws import normal
from holdfast.corruptions.image.blur import gaussian, quick_gaussian

WATER = np.array([175, 238, 238], np.float32)[:, None, None, None] / 255  # pale turquoise
MUD = np.array([63, 42, 20], np.float32)[:, None, None, None] / 255
WEAK, STRONG = 50, 150  # gradients above which an edge continues, and above which it starts
TANGENT = 13573  # of 22.5 degrees, in 1/32768
STRAIGHT, DIAGONAL, KNIGHT = 65536, 91750, 143976  # steps of 1, 1.4 and 2.1969 pixels, in 1/65536
FARTHEST = 20  # pixels
TOUCHING = np.array([np.zeros((3, 3)), np.ones((3, 3)), np.zeros((3, 3))])  # within a layer, corners included


def edges(layers: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """Return the edges of layers (n, height, width), one pixel wide (Canny, PAMI 1986)."""
    height, width = layers.shape[1:]
    values = np.pad(layers, ((0, 0), (1, 1), (1, 1)), "edge").astype(np.int32)
    tall = values[:, :-2] + 2 * values[:, 1:-1] + values[:, 2:]
    wide = values[:, :, :-2] + 2 * values[:, :, 1:-1] + values[:, :, 2:]
    across, down = tall[:, :, 2:] - tall[:, :, :-2], wide[:, 2:] - wide[:, :-2]
    flat, steep = np.abs(across), np.abs(down)
    slope = flat + steep
    fenced = np.pad(slope, ((0, 0), (1, 1), (1, 1)))

    def beside(rows: int, columns: int) -> NDArray[np.int32]:
        return fenced[:, 1 + rows : 1 + rows + height, 1 + columns : 1 + columns + width]

    horizontal = (steep << 15) < flat * TANGENT
    vertical = (steep << 15) > flat * TANGENT + (flat << 16)
    directions = [horizontal, vertical, (across ^ down) >= 0]  # or else the rising diagonal
    before = np.select(directions, [beside(0, -1), beside(-1, 0), beside(-1, -1)], beside(-1, 1))
    after = np.select(directions, [beside(0, 1), beside(1, 0), beside(1, 1)], beside(1, -1))
    # The first of two equal neighbours is the peak, except along a diagonal.
    thin = (slope > WEAK) & (slope > before) & (slope >= after + ~(horizontal | vertical))
    pieces, count = ndimage.label(thin, TOUCHING)
    begun = np.zeros(count + 1, bool)
    begun[pieces[thin & (slope > STRONG)]] = True
    marked: NDArray[np.bool_] = begun[pieces]
    return marked


def distance_to(drops: NDArray[np.bool_]) -> NDArray[np.int32]:
    """Return the distance of each pixel of layers (n, height, width) to the nearest target, in 1/65536 pixel, up to 20.

    Paths consist of straight, diagonal and knight's steps (Borgefors, CVGIP 1986), so the nearest target in a row is
    the one with the fewest columns between.
    """
    column = np.arange(drops.shape[2])
    last = np.maximum.accumulate(np.where(drops, column, -FARTHEST), axis=2)
    following = np.minimum.accumulate(np.where(drops, column, 2 * FARTHEST + len(column))[..., ::-1], axis=2)
    across = np.minimum(np.minimum(column - last, following[..., ::-1] - column), FARTHEST)
    nearest = np.full(drops.shape, FARTHEST * STRAIGHT, np.int32)
    for down, lengths in enumerate(_path_lengths()[: drops.shape[1]]):
        candidates = lengths.take(across)
        below, above = nearest[:, down:], nearest[:, : drops.shape[1] - down]
        np.minimum(below, candidates[:, : drops.shape[1] - down], out=below)
        np.minimum(above, candidates[:, down:], out=above)
    return nearest


def _path_lengths() -> NDArray[np.int32]:
    """Return the length of the shortest path by rows and columns; the largest column distance means no target."""
    down, across = np.indices((FARTHEST, FARTHEST + 1), np.int32)
    longer, shorter = np.maximum(down, across), np.minimum(down, across)
    flat = KNIGHT * shorter + STRAIGHT * (longer - 2 * shorter)
    steep = KNIGHT * (longer - shorter) + DIAGONAL * (2 * shorter - longer)
    lengths: NDArray[np.int32] = np.minimum(np.where(longer >= 2 * shorter, flat, steep), FARTHEST * STRAIGHT)
    return lengths


def equalise(layer: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return a layer with its histogram equalised."""
    counts = np.bincount(layer.ravel(), minlength=256)
    lowest = counts[int(layer.min())]
    if lowest == layer.size:
        return layer
    above_lowest = (np.cumsum(counts) - lowest).clip(0).astype(np.float32)
    levels = np.rint(above_lowest * np.float32(255 / (layer.size - lowest))).astype(np.uint8)
    equal: NDArray[np.uint8] = levels.take(layer)
    return equal


def _sum_of_nine(layers: NDArray[Any]) -> NDArray[Any]:
    layers = np.pad(layers, ((0, 0), (1, 1), (1, 1)), "reflect")
    layers = layers[:, :-2] + layers[:, 1:-1] + layers[:, 2:]
    total: NDArray[Any] = layers[:, :, :-2] + layers[:, :, 1:-1] + layers[:, :, 2:]
    return total


def _relief(layers: NDArray[Any]) -> NDArray[Any]:
    """Return layers embossed, correlated with [[-2, -1, 0], [-1, 1, 1], [0, 1, 2]]."""
    height, width = layers.shape[1:]
    around = np.pad(layers, ((0, 0), (1, 1), (1, 1)), "reflect")

    def beside(rows: int, columns: int) -> NDArray[Any]:
        return around[:, 1 + rows : 1 + rows + height, 1 + columns : 1 + columns + width]

    towards = 2 * beside(1, 1) + beside(1, 0) + beside(0, 1)
    away = 2 * beside(-1, -1) + beside(-1, 0) + beside(0, -1)
    lit: NDArray[Any] = layers + towards - away
    return lit


def _drops(layers: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Return the brightness of a layer of water, from 0 to 1."""
    depth = (_sum_of_nine(distance_to(edges(layers))) / (9 * 65536)).astype(np.float32).astype(np.uint8)
    levels = np.stack([equalise(layer) for layer in depth]).astype(np.int32)
    lit = np.rint(_sum_of_nine(_relief(levels).clip(0, 255)) / 9).astype(np.float32)
    shine = layers * lit
    share: NDArray[np.float32] = shine / np.maximum(shine.max(axis=(1, 2), keepdims=True), 1)
    return share


# The last column is 1 for mud, from the first step above severity 3.
@corruption(
    "spatter",
    {
        "32": (
            (0.62, 0.1, 0.7, 0.7, 0, 0),
            (0.62, 0.1, 0.7, 0.7, 0.5, 0),
            (0.65, 0.1, 0.8, 0.7, 0.5, 0),
            (0.65, 0.3, 1, 0.69, 0.5, 0),
            (0.65, 0.1, 0.7, 0.69, 0.6, 1),
            (0.65, 0.1, 0.5, 0.68, 0.6, 1),
        ),
        "64": (
            (0.62, 0.1, 0.7, 0.7, 0, 0),
            (0.62, 0.1, 0.7, 0.7, 0.6, 0),
            (0.65, 0.1, 0.8, 0.7, 0.6, 0),
            (0.65, 0.3, 1, 0.69, 0.6, 0),
            (0.65, 0.1, 0.7, 0.68, 0.6, 1),
            (0.65, 0.1, 0.5, 0.67, 0.6, 1),
        ),
        "224": (
            (0.65, 0.3, 4, 0.69, 0, 0),
            (0.65, 0.3, 4, 0.69, 0.6, 0),
            (0.65, 0.3, 3, 0.68, 0.6, 0),
            (0.65, 0.3, 2, 0.68, 0.5, 0),
            (0.65, 0.3, 1, 0.65, 1.5, 1),
            (0.67, 0.4, 1, 0.65, 1.5, 1),
        ),
    },
    draw=lambda rng, image, *_: (normal(rng, image.shape[:2]),),
)
def spatter(
    images: Images,
    liquid: NDArray[Any],
    mean: float,
    spread: float,
    sigma: float,
    threshold: float,
    strength: float,
    mud: float,
) -> Images:
    """Add drops of water on the lens, or of mud above severity 3."""
    smooth = (
        gaussian if liquid.dtype == np.float64 else quick_gaussian
    )  # a RandomState asks for published pixels, and so for published rounding
    layers = smooth(mean + spread * liquid, sigma)
    planes = planes_of(images)
    if mud > 0:
        cover = smooth((layers > threshold).astype(np.float32), strength)
        cover[cover < 0.8] = 0
        return images_of(planes * (1 - cover) + cover * MUD)
    layers[layers < threshold] = 0
    # Levels above 255 stay white here; in the reference they wrap around to black.
    return images_of(planes + strength * _drops(quantise(layers)) * WATER)
