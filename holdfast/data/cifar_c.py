"""CIFAR-10-C and CIFAR-100-C as published."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.data.base import DATASETS, InMemoryImages
from holdfast.data.cifar import CIFAR10, CIFAR100
from holdfast.data.cifar_files import CifarVersion
from holdfast.data.on_disk import array_at, folder_at, severity_of
from holdfast.registry import UnknownNameError, nearest

REMEDY = "download and unpack CIFAR-10-C (https://zenodo.org/records/2535967) or CIFAR-100-C (…/records/3555552)"


@DATASETS.register("cifar_c")
class CifarC(InMemoryImages):
    """CIFAR-10-C or CIFAR-100-C, one corruption at one severity as published, for streams of the domain `clean`.

    `folder` holds `<corruption>.npy`, the five severities one after the other, and `labels.npy`, which tell the two
    data sets apart. Images stay on disk until they are requested; the digest reads the 10 000 images of this severity
    once and covers every pixel and label.
    """

    citation = "Hendrycks & Dietterich, ICLR 2019"

    def __init__(self, *, folder: str | Path, corruption: str, severity: int = 5) -> None:
        severity = severity_of(severity)
        arrays, labels, version = five_severities(folder_at(folder, REMEDY), corruption)
        first, name = len(labels) * (severity - 1), f"{version.name}_c/{corruption}/{severity}"
        images = arrays[corruption][first : first + len(labels)]
        super().__init__(images, labels, name=name, class_names=version.class_names)


def five_severities(
    folder: Path, corruption: str | None = None
) -> tuple[dict[str, NDArray[Any]], NDArray[np.int64], CifarVersion]:
    """Return the arrays of all corruptions or of one, the labels of each severity, and which data set they are of."""
    if not (folder / "labels.npy").is_file():
        raise ValueError(f"{folder} has no labels.npy; {REMEDY}")
    labels = np.array(array_at(folder / "labels.npy"), np.int64)
    paths = {path.stem: path for path in sorted(folder.glob("*.npy")) if path.stem != "labels"}
    if corruption is not None and corruption not in paths:
        raise UnknownNameError(f"{folder} has no corruption {corruption!r}; {nearest(corruption, paths)}")
    if not paths:
        raise ValueError(f"{folder} has no corruptions; {REMEDY}")
    size = len(labels) // 5
    arrays = {name: array_at(path) for name, path in paths.items() if corruption in (None, name)}
    for name, images in arrays.items():
        if len(images) != len(labels) or len(labels) % 5 or (labels.reshape(5, -1) != labels[:size]).any():
            raise ValueError(
                f"{folder / name}.npy ({len(images)} images) and labels.npy ({len(labels)}) are not "
                f"five severities of the same samples; {REMEDY}"
            )
        if images.dtype != np.uint8 or images.ndim != 4 or images.shape[-1] != 3:
            raise ValueError(f"{folder / name}.npy holds {images.dtype} {images.shape}, not images; {REMEDY}")
    return arrays, labels[:size], CIFAR10 if labels.max() < len(CIFAR10.class_names) else CIFAR100
