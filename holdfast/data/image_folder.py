"""Picture files in one folder for each class, decoded when they are asked for."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from holdfast.data.base import DATASETS
from holdfast.data.images import centre_crop, resize_shorter_side
from holdfast.data.on_disk import folder_at
from holdfast.image_files import decode_image
from holdfast.records import InputSpec

__all__ = ["ImageFolder"]

SUFFIXES = {".bmp", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp"}
DIGEST_BYTES = 4096  # of each file


@DATASETS.register("image_folder")
class ImageFolder:
    """Pictures in one folder for each class, as ImageNet's validation set: the classes are the folders, sorted by name.

    The shorter side becomes `resize` pixels, then the middle `crop` × `crop` is cut out; None leaves that step out.
    At most `cache_bytes` of decoded pictures are kept.
    """

    citation = "Russakovsky et al., IJCV 2015"

    def __init__(
        self,
        *,
        folder: str | Path,
        resize: int | None = 256,
        crop: int | None = 224,
        cache_bytes: int = 2**28,
    ) -> None:
        if any(pixels is not None and pixels < 1 for pixels in (resize, crop)):
            raise ValueError(f"resize={resize} and crop={crop} leave no pixels; pass None to leave a step out")
        self.folder = folder_at(folder, "pass the one that holds a folder of pictures for each class")
        self.resize = resize
        self.crop = crop
        self.cache_bytes = cache_bytes
        self.name = "image_folder"  # the digest tells folders apart; where they are is no part of a protocol
        self.class_names: Sequence[str] = _class_folders(self.folder)
        by_class = [_pictures(self.folder, name) for name in self.class_names]
        self.files = tuple(file for files in by_class for file in files)  # relative to the folder
        if not self.files:
            raise ValueError(f"{self.folder} has no class folders with pictures; sort them into one for each class")
        self.labels = np.repeat(np.arange(len(by_class)), [len(files) for files in by_class]).astype(np.int64)
        width, height = self._open(0).size if crop is None else (crop, crop)
        self.input_spec = InputSpec("image", (3, height, width))
        self._keep_decoded()
        self._decoded(0)  # a crop that does not fit is better known now than in the middle of a run

    @cached_property
    def digest(self) -> str:
        """Hex digest of resize, crop and class names, and of every file's name, size and last 4096 bytes.

        The end of a file is where compressed formats tell pictures apart (their beginnings are headers, and a PNG ends
        with a checksum of its pixels); smaller files are covered whole.
        """
        content = hashlib.blake2b(repr((self.resize, self.crop, self.class_names)).encode(), digest_size=16)
        for name in self.files:
            with (self.folder / name).open("rb") as file:
                size = file.seek(0, os.SEEK_END)
                file.seek(max(0, size - DIGEST_BYTES))
                content.update(f"\n{name}\n{size}\n".encode())
                content.update(file.read())
        return content.hexdigest()

    def inputs(self, indices: NDArray[np.int64]) -> NDArray[np.uint8]:
        """Return the pictures at these indices, decoded unless they were lately."""
        _, height, width = self.input_spec.shape
        images = np.empty((len(indices), height, width, 3), np.uint8)
        for row, index in enumerate(indices):
            images[row] = self._decoded(int(index))
        return images

    def __getstate__(self) -> dict[str, Any]:
        # To another process goes where the pictures are; those decoded so far stay here.
        return {name: value for name, value in vars(self).items() if name != "_decoded"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._keep_decoded()

    def _keep_decoded(self) -> None:
        # All pictures have one shape, so a bound in bytes is a bound in pictures.
        self._decoded = lru_cache(self.cache_bytes // int(np.prod(self.input_spec.shape)))(self._decode)

    def _decode(self, index: int) -> NDArray[np.uint8]:
        picture = self._open(index)
        _, height, width = self.input_spec.shape
        if picture.size != (width, height):
            raise ValueError(
                f"{self.folder / self.files[index]} comes out with {picture.width}×{picture.height} pixels instead of "
                f"{width}×{height}; pass a crop, and a resize that is no smaller"
            )
        return np.asarray(picture)

    def _open(self, index: int) -> Image.Image:
        path = self.folder / self.files[index]
        picture = decode_image(path)
        if self.resize is not None:
            picture = resize_shorter_side(picture, self.resize)
        return picture if self.crop is None else centre_crop(picture, self.crop)


def _class_folders(folder: Path) -> tuple[str, ...]:
    return tuple(sorted(entry.name for entry in folder.iterdir() if entry.is_dir() and entry.name[0] != "."))


def _pictures(folder: Path, class_name: str) -> list[str]:
    """Return the picture files of one class, however deep, in an order that is the same on every machine."""
    found = (path for path in (folder / class_name).rglob("*") if path.suffix.lower() in SUFFIXES)
    return sorted(path.relative_to(folder).as_posix() for path in found if path.name[0] != ".")
