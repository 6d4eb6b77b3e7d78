"""List image and audio files, and read images."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from holdfast.audio import decoding
from holdfast.corruptions.base import Kind
from holdfast.decode.image_files import decode_image

SUFFIXES: dict[Kind, set[str]] = {
    "image": {".bmp", ".gif", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp"},
    "audio": decoding.SUFFIXES,
}
NAMES: dict[Kind, str] = {"image": "image", "audio": "audio"}


def kind_of(path: Path) -> Kind | None:
    """Return the kind of a file by its suffix, or None if the suffix is unknown.

    >>> kind_of(Path("a.PNG")), kind_of(Path("a.flac")), kind_of(Path("a"))
    ('image', 'audio', None)
    """
    return next((kind for kind, suffixes in SUFFIXES.items() if path.suffix.lower() in suffixes), None)


def files_in(path: Path, kind: Kind = "image") -> list[Path]:
    """Return all image or audio files below a folder, sorted, or the one file given."""
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist; pass a file or a folder of {NAMES[kind]} files")
    if not path.is_dir():
        return [path]
    files = sorted(file for file in path.rglob("*") if kind_of(file) == kind and file.is_file())
    if not files:
        raise ValueError(f"{path} has no {NAMES[kind]} files; looked for {', '.join(sorted(SUFFIXES[kind]))}")
    return files


def read_image(path: Path) -> NDArray[np.uint8]:
    """Return the pixels of an image file as uint8 (height, width, 3), upright by its EXIF orientation."""
    return np.asarray(decode_image(path))
