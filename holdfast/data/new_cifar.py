"""CIFAR-10.1 and CIFAR-10.2: new test images for networks of CIFAR-10."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import numpy as np

from holdfast.data.base import DATASETS, InMemoryImages
from holdfast.data.cifar import CIFAR10
from holdfast.data.on_disk import array_at, arrays_at, folder_at


@DATASETS.register("cifar10_1")
class Cifar101(InMemoryImages):
    """CIFAR-10.1: 2 000 new images for CIFAR-10, or 2 021 in version v4.

    `folder` holds `cifar10.1_<version>_data.npy` and `…_labels.npy`, or `datasets` with them, as in the repository.
    """

    citation = "Recht et al., arXiv 1806.00451"

    def __init__(self, version: Literal["v4", "v6"] = "v6", *, folder: str | Path = "data/CIFAR-10.1") -> None:
        remedy = "download the arrays of https://github.com/modestyachts/CIFAR-10.1 (folder datasets)"
        folder = folder_at(folder, remedy)
        paths = [_file(folder, "datasets", f"cifar10.1_{version}_{kind}.npy", remedy) for kind in ("data", "labels")]
        images, labels = (np.array(array_at(path)) for path in paths)
        super().__init__(images, labels, name=f"cifar10_1/{version}", class_names=CIFAR10.class_names)


@DATASETS.register("cifar10_2")
class Cifar102(InMemoryImages):
    """CIFAR-10.2: 2 000 test images (and 10 000 for training) for CIFAR-10, from `cifar102_test.npz`."""

    citation = "Lu et al., ICML workshop on uncertainty and robustness 2020"

    def __init__(self, split: Literal["train", "test"] = "test", *, folder: str | Path = "data/CIFAR-10.2") -> None:
        remedy = f"download cifar102_{split}.npz from https://github.com/modestyachts/cifar-10.2"
        folder = folder_at(folder, remedy)
        images, labels = arrays_at(_file(folder, "", f"cifar102_{split}.npz", remedy), "images", "labels")
        super().__init__(images, labels, name=f"cifar10_2/{split}", class_names=CIFAR10.class_names)


def _file(folder: Path, inner: str, name: str, remedy: str) -> Path:
    path_of_file = next((path for path in (folder / name, folder / inner / name) if path.is_file()), None)
    if path_of_file is None:
        raise ValueError(f"{folder} has no {name}; {remedy}")
    return path_of_file
