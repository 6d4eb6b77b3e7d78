"""Decode image files to RGB, upright and with 8 bits per channel: the one decoder of data sets and corruptions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import numpy as np
from PIL import Image, ImageOps


def decode_image(source: Path | BinaryIO, name: str | None = None) -> Image.Image:
    """Return an image file as RGB, turned upright by its EXIF orientation; errors give its name.

    16 bits per channel become the upper 8, as Pillow reads 16-bit colour. Images of 32-bit integers or floats have no
    known range and are refused.
    """
    with _readable(name or str(source)), Image.open(source) as image:
        # Before Pillow 11.3 a grey PNG file of 16 bits has the mode of 32 bits.
        sixteen_bits = image.mode.startswith("I;16") or (image.mode == "I" and image.format == "PNG")
        upright = ImageOps.exif_transpose(image)
        if sixteen_bits:
            upright = Image.fromarray((np.asarray(upright).astype(np.uint16) >> 8).astype(np.uint8))
        return as_rgb(upright)


def image_size(path: Path) -> tuple[int, int]:
    """Return width and height as the header of an image file gives them, before it is turned upright."""
    with _readable(str(path)), Image.open(path) as image:
        width, height = image.size
        return width, height


@contextmanager
def _readable(name: str) -> Iterator[None]:
    """Name the file that cannot be read."""
    try:
        yield
    # Pillow's readers raise any of these, depending on the format and on where a file is damaged.
    except (OSError, SyntaxError, ValueError, EOFError, Image.DecompressionBombError) as error:
        raise ValueError(f"{name} is not a readable image ({error}); replace or remove it") from error


def as_rgb(image: Image.Image) -> Image.Image:
    """Return an image with 8 bits per channel as RGB.

    >>> as_rgb(Image.new("LA", (4, 2))).mode
    'RGB'
    """
    if image.mode[0] in "IF":
        raise ValueError(f"the image has more than 8 bits per channel (mode {image.mode}); convert it to RGB first")
    if "transparency" in image.info:  # a palette with transparency is converted to RGB by way of RGBA
        image = image.convert("RGBA")
    return image.convert("RGB")


def resize_shorter_side(image: Image.Image, pixels: int, interpolation: str = "bilinear") -> Image.Image:
    """Return the image with a shorter side of this many pixels: antialiased, the longer side rounded down.

    >>> resize_shorter_side(Image.new("RGB", (500, 375)), 256).size
    (341, 256)
    """
    shorter = min(image.size)
    width, height = (pixels if side == shorter else int(pixels * side / shorter) for side in image.size)
    return image.resize((width, height), getattr(Image.Resampling, interpolation.upper()))
