"""ImageNet-C as published."""

from __future__ import annotations

from pathlib import Path

from holdfast.data.base import DATASETS
from holdfast.data.image_folder import ImageFolder
from holdfast.data.on_disk import folder_at, severity_of
from holdfast.registry import UnknownNameError, nearest

REMEDY = "download ImageNet-C (https://zenodo.org/records/2235448) and unpack it there"


@DATASETS.register("imagenet_c")
class ImageNetC(ImageFolder):
    """ImageNet-C, one corruption at one severity as published, for streams of the domain `clean`.

    `folder` holds `<corruption>/<severity>/<class>/<image>.JPEG`; the published images are already cropped and are
    used unchanged. The digest is that of `image_folder`.
    """

    citation = "Hendrycks & Dietterich, ICLR 2019"

    def __init__(self, *, folder: str | Path, corruption: str, severity: int = 5, cache_bytes: int = 2**28) -> None:
        severity = severity_of(severity)
        folder = folder_at(folder, REMEDY)
        if not (folder / corruption).is_dir():
            there = [path.name for path in folder.iterdir() if path.is_dir()]
            raise UnknownNameError(f"{folder} has no corruption {corruption!r}; {nearest(corruption, there)}")
        chosen = folder_at(folder / corruption / str(severity), REMEDY)
        super().__init__(folder=chosen, resize=None, crop=None, cache_bytes=cache_bytes)
        self.name = f"imagenet_c/{corruption}/{severity}"
