"""CIFAR-10-C and CIFAR-100-C with all corruptions, each a domain of a stream."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property, partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.data.base import DATASETS, Dataset
from holdfast.data.cifar import CIFAR10, Cifar10, Cifar100
from holdfast.data.cifar_c import REMEDY, five_severities
from holdfast.data.on_disk import digest_of, folder_at, severity_of
from holdfast.data.stored import check_stored, clean_of
from holdfast.records import InputSpec

DIGEST_EVERY = 97  # images


@DATASETS.register("stored_cifar_c")
class StoredCifarC:
    """CIFAR-10-C or CIFAR-100-C as downloaded; every corruption is a domain of any stream, at severities 1 to 5.

    `folder` holds `<corruption>.npy`, the five severities one after the other, and `labels.npy`, which tell the two
    data sets apart. Arrays are memory-mapped. The domain `clean` needs `clean`, a folder of the original data set. The
    digest covers the labels and every 97th image of each array.
    """

    citation = "Hendrycks & Dietterich, ICLR 2019"

    def __init__(self, *, folder: str | Path, clean: str | Path | None = None) -> None:
        self.folder = folder_at(folder, REMEDY)
        self._clean_folder = clean
        self.arrays, self.labels, version = five_severities(self.folder)
        self.name = f"{version.name}_c"
        self.class_names: Sequence[str] = version.class_names
        self.stored: Sequence[str] = tuple(self.arrays)
        height, width = next(iter(self.arrays.values())).shape[1:3]
        self.input_spec = InputSpec("image", (3, height, width))
        original = Cifar10 if version is CIFAR10 else Cifar100
        self.clean: Dataset | None = None if clean is None else original("test", folder=clean)

    @cached_property
    def digest(self) -> str:
        """Hex digest of the labels and of every 97th image of each array."""
        arrays = (
            f"\n{name} {images.shape}\n".encode() + images[::DIGEST_EVERY].tobytes()
            for name, images in self.arrays.items()
        )
        return digest_of(chain([self.labels.tobytes()], arrays))

    def __reduce__(self) -> tuple[Callable[..., StoredCifarC], tuple[()]]:
        # Another process maps the arrays itself.
        return partial(StoredCifarC, folder=self.folder, clean=self._clean_folder), ()

    def inputs(self, indices: NDArray[np.int64]) -> NDArray[Any]:
        """Return the clean images at these indices."""
        return clean_of(self.name, self.clean, self.labels).inputs(indices)

    def corrupted(self, indices: NDArray[np.int64], corruption: str, severity: float) -> NDArray[np.uint8]:
        """Return the stored images at these indices."""
        check_stored(self.name, corruption, self.stored)
        first = len(self.labels) * (severity_of(severity) - 1)
        return np.array(self.arrays[corruption][first + indices])
