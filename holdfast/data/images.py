"""Picture files to pixels, resized and cropped as the published ImageNet evaluations do."""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO

from PIL import Image

__all__ = ["centre_crop", "decode", "resize_shorter_side"]


def decode(source: Path | BinaryIO, name: str) -> Image.Image:
    """Return the picture as RGB, or say by its name which one cannot be read."""
    try:
        with Image.open(source) as picture:
            rgb: Image.Image = picture.convert("RGB")
    # Pillow's readers raise one or the other, depending on the format and on where a file is damaged.
    except (OSError, SyntaxError, ValueError, EOFError, Image.DecompressionBombError) as error:
        raise ValueError(f"{name} is not a readable picture ({error}); replace it or take it away") from error
    return rgb


def resize_shorter_side(picture: Image.Image, pixels: int) -> Image.Image:
    """Return the picture with this shorter side: bilinear, antialiased, the longer side rounded down.

    >>> resize_shorter_side(Image.new("RGB", (500, 375)), 256).size
    (341, 256)
    """
    shorter = min(picture.size)
    width, height = (pixels if side == shorter else int(pixels * side / shorter) for side in picture.size)
    return picture.resize((width, height), Image.Resampling.BILINEAR)


def centre_crop(picture: Image.Image, pixels: int) -> Image.Image:
    """Return the square in the middle, offsets rounded half to even; a side with fewer pixels keeps what it has.

    >>> centre_crop(Image.new("RGB", (341, 256)), 224).size
    (224, 224)
    """
    width, height = (min(side, pixels) for side in picture.size)
    left, top = round((picture.width - width) / 2), round((picture.height - height) / 2)
    return picture.crop((left, top, left + width, top + height))
