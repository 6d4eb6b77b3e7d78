"""Loops of image corruptions, compiled by numba: the pixels are those of the formulas in numpy, to the last level.

Only `fast.loops` imports this file, where the extra `fast` is installed. No operation is fused or reordered, and all
arithmetic has the types of the formulas: numbers are passed with their type, because numba takes a literal for 64 bits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
import numpy as np
from numpy.typing import NDArray

Loop = TypeVar("Loop", bound=Callable[..., Any])
Bytes = NDArray[np.uint8]


def compiled(loop: Loop) -> Loop:
    """Compile a loop when it is first called, and keep it on disk for the next process if there is a folder for it."""
    try:
        return cast(Loop, numba.njit(cache=True, nogil=True)(loop))
    except RuntimeError:  # no folder can be written
        return cast(Loop, numba.njit(nogil=True)(loop))


@compiled
def planes(pixels: Bytes, shares: NDArray[Any]) -> NDArray[Any]:
    """Return the channels of pixels (n, 3) as planes (3, n) of `shares`, levels from 0 to 1."""
    values = np.empty((3, len(pixels)), shares.dtype)
    for index in range(len(pixels)):
        for channel in range(3):
            values[channel, index] = shares[pixels[index, channel]]
    return values


@compiled
def levels(values: NDArray[Any], white: Any) -> Bytes:
    """Return planes (3, n) of values from 0 to 1 as pixels (n, 3) of levels, truncated."""
    pixels = np.empty((values.shape[1], 3), np.uint8)
    black, one = white - white, white / white
    for index in range(len(pixels)):
        for channel in range(3):
            pixels[index, channel] = np.uint8(np.int32(min(max(values[channel, index], black), one) * white))
    return pixels


@compiled
def paired(first: Bytes, second: Bytes, table: Bytes) -> Bytes:
    """Return `table[first, second]` for flat arrays."""
    levels = np.empty_like(first)
    for index in range(first.size):
        levels[index] = table[first[index], second[index]]
    return levels


@compiled
def by_largest(pixels: Bytes, table: Bytes) -> Bytes:
    """Return `table[largest channel, channel]` of pixels (n, 3)."""
    levels = np.empty_like(pixels)
    for index in range(len(pixels)):
        red, green, blue = pixels[index, 0], pixels[index, 1], pixels[index, 2]
        row = table[max(red, green, blue)]
        levels[index, 0], levels[index, 1], levels[index, 2] = row[red], row[green], row[blue]
    return levels


@compiled
def channel_sums(images: Bytes) -> NDArray[np.int64]:
    """Return the sum of each channel of images (n, pixels, 3)."""
    sums = np.zeros((len(images), 3), np.int64)
    for index in range(len(images)):
        image = images[index]
        red, green, blue = 0, 0, 0
        for pixel in range(len(image)):
            red += image[pixel, 0]
            green += image[pixel, 1]
            blue += image[pixel, 2]
        sums[index] = red, green, blue
    return sums


@compiled
def by_channel(images: Bytes, tables: Bytes) -> Bytes:
    """Return the levels of images (n, pixels, 3) by a table (3, 256) for each image."""
    levels = np.empty_like(images)
    for index in range(len(images)):
        image, changed, table = images[index], levels[index], tables[index]
        for pixel in range(len(image)):
            for channel in range(3):
                changed[pixel, channel] = table[channel, image[pixel, channel]]
    return levels


@compiled
def saturated(
    pixels: Bytes, shares: NDArray[np.float64], saturation: NDArray[np.float64], highest: Bytes, lowest: Bytes
) -> Bytes:
    """Return pixels (n, 3) with another saturation.

    Tables have the saturation and the level of the lowest channel by largest and lowest channel, the level of the
    largest channel by itself, and `shares`, levels from 0 to 1. Only the middle channel has to be computed.
    """
    levels = np.empty_like(pixels)
    for index in range(len(pixels)):
        pixel = pixels[index]
        top, bottom = max(pixel[0], pixel[1], pixel[2]), min(pixel[0], pixel[1], pixel[2])
        if top == bottom:  # grey has no hue; the reference treats it as red
            levels[index, 0] = highest[top]
            levels[index, 1] = levels[index, 2] = lowest[top, top]
            continue
        for channel in range(3):
            level = pixel[channel]
            if level == top:
                levels[index, channel] = highest[top]
            elif level == bottom:
                levels[index, channel] = lowest[top, bottom]
            else:
                spread = shares[top] - shares[bottom]
                above = (shares[level] - shares[bottom]) / spread
                value = shares[top] * (1.0 - saturation[top, bottom] * (1.0 - above))
                levels[index, channel] = np.uint8(np.int32(min(max(value, 0.0), 1.0) * 255.0))
    return levels


@compiled
def added(images: Bytes, noise: NDArray[Any], scale: Any, white: Any) -> Bytes:
    """Return levels of flat images plus scaled noise."""
    levels = np.empty_like(images)
    black = white - white
    for index in range(images.size):
        value = noise[index] * scale
        value = value + images[index]
        levels[index] = np.uint8(np.int32(min(max(value, black), white)))
    return levels


@compiled
def multiplied(images: Bytes, noise: NDArray[Any], scale: Any, one: Any, white: Any) -> Bytes:
    """Return levels of flat images times one plus scaled noise."""
    levels = np.empty_like(images)
    black = white - white
    for index in range(images.size):
        value = noise[index] * scale
        value = (value + one) * images[index]
        levels[index] = np.uint8(np.int32(min(max(value, black), white)))
    return levels


@compiled
def aliased(drawn: NDArray[np.uint32], images: Bytes, threshold: NDArray[np.uint32], otherwise: Bytes) -> Bytes:
    """Return the noisy levels of a flat image by tables of 256 levels by 256 columns, from a random number for each."""
    levels = np.empty_like(images)
    for index in range(images.size):
        column = np.uint8(drawn[index] & np.uint32(255))
        entry = (np.int64(images[index]) << 8) | column
        levels[index] = column if drawn[index] < threshold[entry] else otherwise[entry]
    return levels


@compiled
def fogged(
    images: Bytes, clouds: NDArray[Any], shares: NDArray[Any], brightest: Any, divisor: Any, white: Any
) -> Bytes:
    """Return an image (height, width, 3) with clouds (height, width) of the strength wanted."""
    levels = np.empty_like(images)
    one, black = white / white, white - white
    for row in range(images.shape[0]):
        for column in range(images.shape[1]):
            cloud = clouds[row, column]
            for channel in range(3):
                value = (shares[images[row, column, channel]] + cloud) * brightest / divisor
                levels[row, column, channel] = np.uint8(np.int32(min(max(value, black), one) * white))
    return levels


@compiled
def _filtered(total: NDArray[np.float64], line: NDArray[np.float64], taps: NDArray[np.float64], step: int) -> None:
    """Sum `line` at distances of `step`: the middle first, then pairs from the outermost, as SciPy does."""
    reach = len(taps) // 2
    middle = line[reach * step :]
    for at in range(len(total)):
        total[at] = middle[at] * taps[reach]
    for tap in range(reach):
        first, last, weight = line[tap * step :], line[(2 * reach - tap) * step :], taps[tap]
        for at in range(len(total)):
            total[at] += (first[at] + last[at]) * weight


@compiled
def blurred(images: Bytes, taps: NDArray[np.float64]) -> Bytes:
    """Return images (n, height, width, channels) smoothed along columns, then rows, borders replicated."""
    count, height, width, channels = images.shape
    reach, length = len(taps) // 2, width * channels
    edge = reach * channels
    levels = np.empty((count, height, length), np.uint8)
    values = np.empty((height + 2 * reach) * length, np.float64)
    line, total = np.empty(length + 2 * edge), np.empty(length)
    for index in range(count):
        image = images[index].reshape(height, length)
        for row in range(height + 2 * reach):
            levels_there, values_there = image[min(max(row - reach, 0), height - 1)], values[row * length :]
            for at in range(length):
                values_there[at] = levels_there[at] / 255.0
        for row in range(height):
            inner = line[edge : edge + length]
            _filtered(inner, values[row * length :], taps, length)
            for at in range(edge):
                line[at] = inner[at % channels]
                line[edge + length + at] = inner[length - channels + at % channels]
            _filtered(total, line, taps, channels)
            for at in range(length):
                levels[index, row, at] = np.uint8(np.int32(min(max(total[at], 0.0), 1.0) * 255.0))
    return levels.reshape(images.shape)


@compiled
def exchanged(images: Bytes, offsets: NDArray[Any], reach: int) -> None:
    """Copy to each inner pixel of images (n, height, width, 3), from the last to the first, the one at its offset."""
    height, width = images.shape[1:3]
    for index in range(len(images)):
        image = images[index]
        for times in range(offsets.shape[1]):
            drawn = offsets[index, times]
            used = 0
            for row in range(height - reach, reach, -1):
                for column in range(width - reach, reach, -1):
                    from_column, from_row = column + drawn[used, 0], row + drawn[used, 1]
                    used += 1
                    for channel in range(3):
                        image[row, column, channel] = image[from_row, from_column, channel]


@compiled
def _reflected(at: int, length: int, repeated: int) -> int:
    """Return a position reflected into 0 .. length - 1, with the border repeated or not."""
    if 0 <= at < length:
        return at
    period = max(2 * (length - 1 + repeated), 1)
    folded = at % period
    return min(folded, period - repeated - folded)


@compiled
def turned(
    image: Bytes, along_x: NDArray[np.int32], along_y: NDArray[np.int32], shares: NDArray[np.float32], units: Any
) -> NDArray[np.float32]:
    """Return an image (height, width, 3) by an affine map, whose positions are in 1024ths, rounded to `units`: 1/32."""
    height, width = image.shape[:2]
    moved = np.empty((height, width, 3), np.float32)
    one = units * np.float32(32)
    for y in range(height):
        for x in range(width):
            across, down = (along_x[0, x] + along_y[0, y]) >> 5, (along_x[1, x] + along_y[1, y]) >> 5
            right, below = np.float32(across & 31) * units, np.float32(down & 31) * units
            left, above = one - right, one - below
            across, down = across >> 5, down >> 5
            x0, x1 = _reflected(across, width, 0), _reflected(across + 1, width, 0)
            y0, y1 = _reflected(down, height, 0), _reflected(down + 1, height, 0)
            first, second, third, fourth = above * left, above * right, below * left, below * right
            for channel in range(3):
                value = shares[image[y0, x0, channel]] * first
                value = value + shares[image[y0, x1, channel]] * second
                value = value + shares[image[y1, x0, channel]] * third
                moved[y, x, channel] = value + shares[image[y1, x1, channel]] * fourth
    return moved


@compiled
def displaced(image: NDArray[np.float32], shifts: NDArray[Any], one: Any, white: Any) -> Bytes:
    """Return the levels of an image (height, width, 3) displaced by shifts (2, height, width), across and down."""
    height, width = image.shape[:2]
    levels = np.empty((height, width, 3), np.uint8)
    for y in range(height):
        for x in range(width):
            floor_x, floor_y = np.floor(shifts[0, y, x]), np.floor(shifts[1, y, x])
            right, below = np.float32(shifts[0, y, x] - floor_x), np.float32(shifts[1, y, x] - floor_y)
            left, above = one - right, one - below
            across, down = np.int64(floor_x) + x, np.int64(floor_y) + y
            x0, x1 = _reflected(across, width, 1), _reflected(across + 1, width, 1)
            y0, y1 = _reflected(down, height, 1), _reflected(down + 1, height, 1)
            first, second, third, fourth = above * left, above * right, below * left, below * right
            for channel in range(3):
                value = image[y0, x0, channel] * first
                value = value + image[y0, x1, channel] * second
                value = value + image[y1, x0, channel] * third
                value = (value + image[y1, x1, channel] * fourth) * white
                levels[y, x, channel] = np.uint8(np.int32(value))
    return levels


@compiled
def trailed(
    image: Bytes, weights: NDArray[np.float64], down: NDArray[np.int64], across: NDArray[np.int64], start: float
) -> Bytes:
    """Return an image (height, width, channels) as the truncated sum of `start` and of shifted, weighted copies.

    Borders are replicated.
    """
    height, width, channels = image.shape
    left, length = -across.min(), width * channels
    padded = np.empty((height, (width + left + across.max()) * channels))
    for row in range(height):
        for at in range(padded.shape[1] // channels):
            column = min(max(at - left, 0), width - 1)
            for channel in range(channels):
                padded[row, at * channels + channel] = image[row, column, channel]
    levels, total = np.empty((height, length), np.uint8), np.empty(length)
    for row in range(height):
        total[:] = start
        for tap in range(len(weights)):
            line = padded[min(max(row + down[tap], 0), height - 1), (across[tap] + left) * channels :]
            weight = weights[tap]
            for at in range(length):
                total[at] += line[at] * weight
        for at in range(length):
            levels[row, at] = np.uint8(np.int32(total[at]))
    return levels.reshape(image.shape)


@compiled
def _between(
    total: NDArray[np.float32],
    line: NDArray[np.float64],
    left: NDArray[np.int64],
    right: NDArray[np.int64],
    beside: NDArray[np.float64],
) -> None:
    """Add to a row the values between neighbours on a line."""
    for column in range(len(total)):
        share = beside[column]
        value = line[np.uint64(left[column])] * (1.0 - share) + line[np.uint64(right[column])] * share
        total[column] += np.float32(value)


@compiled
def zoomed(
    image: Bytes,
    shares: NDArray[np.float32],
    down: tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]],
    across: tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]],
    white: Any,
) -> Bytes:
    """Return the average of an image (height, width, 3) and its enlargements, the image counted first and last.

    `down` and `across` have, for each enlargement and position, two neighbours and the fraction between them.
    """
    height, width = image.shape[:2]
    values = np.empty((height, 3, width), np.float32)
    for row in range(height):
        for column in range(width):
            for channel in range(3):
                values[row, channel, column] = shares[image[row, column, channel]]
    top, bottom, below = down
    left, right, beside = across
    count, black, one = np.float32(len(top) + 2), white - white, white / white
    flat, line, total = values.reshape(height, 3 * width), np.empty(3 * width), np.empty((3, width), np.float32)
    levels = np.empty_like(image)
    for row in range(height):
        total[:] = values[row]
        for zoom in range(len(top)):
            first, second, share = flat[top[zoom, row]], flat[bottom[zoom, row]], below[zoom, row]
            for at in range(3 * width):
                line[at] = np.float64(first[at]) * (1.0 - share) + np.float64(second[at]) * share
            for channel in range(3):
                _between(total[channel], line[channel * width :], left[zoom], right[zoom], beside[zoom])
        for channel in range(3):
            for column in range(width):
                value = (total[channel, column] + values[row, channel, column]) / count
                levels[row, column, channel] = np.uint8(np.int32(min(max(value, black), one) * white))
    return levels


@compiled
def snowed(
    image: Bytes, fallen: NDArray[Any], shares: NDArray[np.float32], weights: NDArray[np.float32], white: Any
) -> Bytes:
    """Return an image (height, width, 3), whitened, with fallen flakes (height, width).

    Weights are those of red, green, blue, the grey and the constant of the whiter image, and of both images.
    """
    levels = np.empty_like(image)
    black, one = white - white, white / white
    for row in range(image.shape[0]):
        for column in range(image.shape[1]):
            red, green, blue = image[row, column, 0], image[row, column, 1], image[row, column, 2]
            grey = weights[0] * shares[red] + weights[1] * shares[green] + weights[2] * shares[blue]
            pale = weights[3] * grey + weights[4]
            for channel in range(3):
                value = shares[image[row, column, channel]]
                mixed = weights[5] * value + weights[6] * max(value, pale) + fallen[row, column]
                levels[row, column, channel] = np.uint8(np.int32(min(max(mixed, black), one) * white))
    return levels


@compiled
def refined(clouds: NDArray[Any], fields: NDArray[Any], amplitude: Any, twice: Any, quarter: Any) -> NDArray[Any]:
    """Return clouds (side, side) on a grid of twice the side, by noise (3, side, side) of uniform values."""
    side = len(clouds)
    finer = np.empty((2 * side, 2 * side), clouds.dtype)
    for row in range(side):
        under = row + 1 if row + 1 < side else 0
        for column in range(side):
            right = column + 1 if column + 1 < side else 0
            pairs = clouds[row, column] + clouds[under, column]
            beside = clouds[row, right] + clouds[under, right]
            noise = amplitude * (twice * fields[0, row, column] - amplitude)
            finer[2 * row, 2 * column] = clouds[row, column]
            finer[2 * row + 1, 2 * column + 1] = (pairs + beside) * quarter + noise
    for row in range(side):
        above, under = 2 * row - 1 if row else 2 * side - 1, row + 1 if row + 1 < side else 0
        for column in range(side):
            before, right = 2 * column - 1 if column else 2 * side - 1, column + 1 if column + 1 < side else 0
            centre = finer[2 * row + 1, 2 * column + 1]
            noise = amplitude * (twice * fields[1, row, column] - amplitude)
            near = (centre + finer[above, 2 * column + 1]) + (clouds[row, column] + clouds[row, right])
            finer[2 * row, 2 * column + 1] = near * quarter + noise
            noise = amplitude * (twice * fields[2, row, column] - amplitude)
            near = (centre + finer[2 * row + 1, before]) + (clouds[row, column] + clouds[under, column])
            finer[2 * row + 1, 2 * column] = near * quarter + noise
    return finer


@compiled
def _narrowed(line: Bytes, starts: NDArray[np.int64], stops: NDArray[np.int64], weights: Any, narrow: Bytes) -> None:
    """Average a row of pixels (width, 3) over boxes, with weights in 1/2²²."""
    for box in range(len(starts)):
        red, green, blue = 0, 0, 0
        inside = line[starts[box] : stops[box]]
        for column in range(len(inside)):
            red += inside[column, 0]
            green += inside[column, 1]
            blue += inside[column, 2]
        narrow[box, 0] = min((red * weights[box] + (1 << 21)) >> 22, 255)
        narrow[box, 1] = min((green * weights[box] + (1 << 21)) >> 22, 255)
        narrow[box, 2] = min((blue * weights[box] + (1 << 21)) >> 22, 255)


@compiled
def pixelated(
    image: Bytes,
    boxes_down: tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]],
    boxes_across: tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]],
    down: NDArray[np.int64],
    across: NDArray[np.int64],
) -> Bytes:
    """Return an image (height, width, 3) shrunk along rows, then columns, and enlarged again by copying.

    Boxes are their starts, stops and weights in 1/2²²; `down` and `across` say which of them each pixel shows.
    """
    (tops, bottoms, heights), (lefts, rights, widths) = boxes_down, boxes_across
    height, width = image.shape[:2]
    narrow, levels = np.empty((height, len(lefts), 3), np.uint8), np.empty_like(image)
    for row in range(height):
        _narrowed(image[row], lefts, rights, widths, narrow[row])
    rows, sums, small = (
        narrow.reshape(height, -1),
        np.empty(len(lefts) * 3, np.int32),
        np.empty((len(lefts), 3), np.uint8),
    )
    shrunk = small.reshape(-1)
    for row in range(height):
        box = down[row]
        if row and box == down[row - 1]:
            levels[row] = levels[row - 1]
            continue
        sums[:] = 0
        for each in range(tops[box], bottoms[box]):
            for at in range(len(sums)):
                sums[at] += rows[each, at]
        for at in range(len(sums)):
            shrunk[at] = min((sums[at] * heights[box] + (1 << 21)) >> 22, 255)
        for column in range(width):
            shown = across[column]
            for channel in range(3):
                levels[row, column, channel] = small[shown, channel]
    return levels
