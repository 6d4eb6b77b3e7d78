"""Image files: which ones a path stands for, and their pixels."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps

from holdfast.corruptions.samples import as_image

__all__ = ["images_in", "read_image"]

SUFFIXES = {".bmp", ".gif", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp"}


def images_in(path: Path) -> list[Path]:
    """Return all images below a folder, sorted, or the one file that the path names."""
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist; name an image file or a folder of images")
    if not path.is_dir():
        return [path]
    found = sorted(file for file in path.rglob("*") if file.suffix.lower() in SUFFIXES and file.is_file())
    if not found:
        raise ValueError(f"no images in {path}; looked for {', '.join(sorted(SUFFIXES))}")
    return found


def read_image(path: Path) -> NDArray[np.uint8]:
    """Return the pixels of a file as uint8 (height, width, 3), the way up that the camera was held."""
    with Image.open(path) as picture:
        image, _ = as_image(ImageOps.exif_transpose(picture))
        return image
