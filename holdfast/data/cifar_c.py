"""CIFAR-10-C and CIFAR-100-C as published."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from holdfast.data.base import DATASETS, InMemoryImages
from holdfast.data.cifar import CIFAR10, CIFAR100
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
        folder = folder_at(folder, REMEDY)
        if not (folder / "labels.npy").is_file():
            raise ValueError(f"{folder} has no labels.npy; {REMEDY}")
        if not (folder / f"{corruption}.npy").is_file():
            there = {path.stem for path in folder.glob("*.npy")} - {"labels"}
            raise UnknownNameError(f"{folder} has no corruption {corruption!r}; {nearest(corruption, there)}")
        images, labels = array_at(folder / f"{corruption}.npy"), array_at(folder / "labels.npy")
        if len(images) != len(labels) or len(labels) % 5 or (labels.reshape(5, -1) != labels[: len(labels) // 5]).any():
            raise ValueError(
                f"{folder / corruption}.npy ({len(images)} images) and labels.npy ({len(labels)}) are not "
                f"five severities of the same samples; {REMEDY}"
            )
        size = len(labels) // 5
        version = CIFAR10 if labels.max() < len(CIFAR10.class_names) else CIFAR100
        super().__init__(
            images[size * (severity - 1) : size * severity],
            np.array(labels[:size], np.int64),
            name=f"{version.name}_c/{corruption}/{severity}",
            class_names=version.class_names,
        )
