"""Resize and crop images as published ImageNet evaluations do."""

from __future__ import annotations

from PIL import Image


def resize_shorter_side(image: Image.Image, pixels: int) -> Image.Image:
    """Return the image with a shorter side of this many pixels: bilinear, antialiased, the longer side rounded down.

    >>> resize_shorter_side(Image.new("RGB", (500, 375)), 256).size
    (341, 256)
    """
    shorter = min(image.size)
    width, height = (pixels if side == shorter else int(pixels * side / shorter) for side in image.size)
    return image.resize((width, height), Image.Resampling.BILINEAR)


def centre_crop(image: Image.Image, pixels: int) -> Image.Image:
    """Return the central square, offsets rounded half to even; a side with fewer pixels is not cropped.

    >>> centre_crop(Image.new("RGB", (341, 256)), 224).size
    (224, 224)
    """
    width, height = (min(side, pixels) for side in image.size)
    left, top = round((image.width - width) / 2), round((image.height - height) / 2)
    return image.crop((left, top, left + width, top + height))
