"""ImageNet-C, ImageNet-C-bar and ImageNet-3DCC with all corruptions, each a domain of a stream."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.data.base import DATASETS, Dataset
from holdfast.data.image_folder import DIGEST_BYTES, ImageFolder
from holdfast.data.on_disk import digest_of, folder_at, severity_of
from holdfast.data.stored import check_stored, clean_of
from holdfast.records import InputSpec

DIGEST_EVERY = 499  # files


@DATASETS.register("stored_imagenet_c")
class StoredImageNetC:
    """ImageNet-C as downloaded; every corruption is a domain of any stream, at the severities that are there.

    `folder` holds `<corruption>/<severity>/<class>/<image>`, or the groups that the archives unpack to (`noise/…`,
    `blur/…`). The images are used unchanged, or resized and cropped if `resize` and `crop` are given. The domain
    `clean` needs `clean`, the folder of the validation set. The digest covers the names of all images, and the size
    and the last 4096 bytes of every 499th image of each corruption and severity.
    """

    citation = "Hendrycks & Dietterich, ICLR 2019"
    archive = "ImageNet-C, https://zenodo.org/records/2235448"
    set_name = "imagenet_c"

    def __init__(
        self,
        *,
        folder: str | Path,
        clean: str | Path | None = None,
        resize: int | None = None,
        crop: int | None = None,
    ) -> None:
        remedy = f"download {self.archive} and unpack it there"
        self.folder = folder_at(folder, remedy)
        self._folders = _severity_folders(self.folder)
        if not self._folders:
            raise ValueError(f"{self.folder} holds no <corruption>/<severity>/<class> folders; {remedy}")
        self._listed = listed = ImageFolder(
            folder=next(iter(self._folders.values())), resize=resize, crop=crop, cache_bytes=0
        )
        self.name = self.set_name
        self.files, self.labels = listed.files, listed.labels
        self.class_names: Sequence[str] = listed.class_names
        self.input_spec: InputSpec = listed.input_spec
        self.stored: Sequence[str] = tuple(dict.fromkeys(name for name, _ in self._folders))
        size = self.input_spec.shape[1]
        self.clean: Dataset | None = (
            None if clean is None else ImageFolder(folder=clean, resize=size * 256 // 224, crop=size)
        )

    @cached_property
    def digest(self) -> str:
        """Hex digest of all names, and of size and end of every 499th image of each corruption and severity."""
        stated = repr((self._listed.resize, self._listed.crop, self.files)).encode()
        pieces = (
            f"\n{name} {severity} {file} {len(stored)}\n".encode() + stored[-DIGEST_BYTES:]
            for (name, severity), folder_of_level in self._folders.items()
            for file in self.files[::DIGEST_EVERY]
            for stored in [_existing(folder_of_level / file).read_bytes()]
        )
        return digest_of(chain([stated], pieces))

    def inputs(self, indices: NDArray[np.int64]) -> NDArray[Any]:
        """Return the clean images at these indices."""
        return clean_of(self.name, self.clean, self.labels).inputs(indices)

    def corrupted(self, indices: NDArray[np.int64], corruption: str, severity: float) -> NDArray[np.uint8]:
        """Return the stored images at these indices."""
        check_stored(self.name, corruption, self.stored)
        folder_of_level = self._folders.get((corruption, severity_of(severity)))
        if folder_of_level is None:
            there = ", ".join(str(level) for name, level in self._folders if name == corruption)
            raise ValueError(f"{self.name} holds {corruption} at severity {there} only, not {severity:g}")
        _, height, width = self.input_spec.shape
        images = np.empty((len(indices), height, width, 3), np.uint8)
        for row, index in enumerate(indices):
            images[row] = self._listed.pixels(_existing(folder_of_level / self.files[index]))
        return images


@DATASETS.register("stored_imagenet_c_bar")
class StoredImageNetCBar(StoredImageNetC):
    """ImageNet-C-bar, whose ten corruptions look unlike those of ImageNet-C, in the same layout."""

    citation = "Mintun et al., NeurIPS 2021"
    archive = "ImageNet-C-bar, https://github.com/facebookresearch/augmentation-corruption"
    set_name = "imagenet_c_bar"


@DATASETS.register("stored_imagenet_3dcc")
class StoredImageNet3DCC(StoredImageNetC):
    """ImageNet-3DCC, twelve corruptions that follow the geometry of the scene, in the same layout."""

    citation = "Kar et al., CVPR 2022"
    archive = "ImageNet-3DCC, https://github.com/EPFL-VILAB/3DCommonCorruptions"
    set_name = "imagenet_3dcc"


def _severity_folders(folder: Path) -> dict[tuple[str, int], Path]:
    """Return the folder of each corruption and severity, at the top or one level below."""
    folders: dict[tuple[str, int], Path] = {}
    for folder_of_level in (*sorted(folder.glob("*/*")), *sorted(folder.glob("*/*/*"))):
        level = folder_of_level.name.removesuffix(".0")
        if level in ("1", "2", "3", "4", "5") and folder_of_level.is_dir():
            folders[folder_of_level.parent.name, int(level)] = folder_of_level
    return folders


def _existing(path: Path) -> Path:
    if not path.is_file():
        raise ValueError(f"{path} is missing, which other corruptions hold; unpack the archive again")
    return path
