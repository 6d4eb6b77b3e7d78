"""Read CIFAR from its binary version, Parquet files or custom arrays; nothing is unpickled."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from holdfast.data.on_disk import arrays_at, check_split, digest_of, folder_at
from holdfast.decode.image_files import decode_image
from holdfast.decode.parquet import parquet_rows
from holdfast.machine.folders import cache_folder, held, made, write_whole

PIXEL_BYTES = 3 * 32 * 32
Labelled = tuple[NDArray[np.uint8], NDArray[np.int64]]


@dataclass(frozen=True)
class CifarVersion:
    """The differences between CIFAR-10 and CIFAR-100: names, files and layout."""

    name: str
    class_names: tuple[str, ...]
    archive: str  # address of the binary version
    binary_files: Mapping[str, tuple[str, ...]]  # by split
    label_bytes: int  # before the pixels of a binary record; the last one is the class
    label_column: str  # of the Parquet files
    subfolders: tuple[str, ...]  # that the archives unpack to
    pickle_folder: str
    pickle_files: Mapping[str, str]  # by split


def read_cifar(version: CifarVersion, folder: str | Path, split: str) -> Labelled:
    """Return images (n, 32, 32, 3) and labels of one split from the first layout found."""
    check_split(version.name, split, version.binary_files)
    remedy = (
        f"download and unpack {version.archive}, or the Parquet files from Hugging Face, "
        f"or save images and labels as {split}.npz"
    )
    folder = folder_at(folder, remedy)
    for root in (folder, *(folder / subfolder for subfolder in version.subfolders)):
        binary = [root / name for name in version.binary_files[split]]
        if any(path.is_file() for path in binary):
            return _binary(binary, version.label_bytes)
        if parquet := sorted(root.glob(f"{split}.parquet")) or sorted(root.glob(f"{split}-*-of-*.parquet")):
            return _parquet(parquet, version.label_column)
        if (root / f"{split}.npz").is_file():
            images, labels = arrays_at(root / f"{split}.npz", "images", "labels")
            return images, labels.astype(np.int64)
    pickles = (root / version.pickle_files[split] for root in (folder, folder / version.pickle_folder))
    if pickled := next((path for path in pickles if path.is_file()), None):
        raise ValueError(f"{pickled} is a pickle, which can run any code and is never read; {remedy}")
    raise ValueError(f"{folder} does not hold the {split} split of {version.name}; {remedy}")


def _binary(paths: Sequence[Path], label_bytes: int) -> Labelled:
    records = np.concatenate([_records(path, label_bytes + PIXEL_BYTES) for path in paths])
    planes = records[:, label_bytes:].reshape(-1, 3, 32, 32)
    return np.ascontiguousarray(planes.transpose(0, 2, 3, 1)), records[:, label_bytes - 1].astype(np.int64)


def _records(path: Path, record_bytes: int) -> NDArray[np.uint8]:
    if not path.is_file():
        raise ValueError(f"{path} is missing; unpack the archive again")
    content = np.fromfile(path, np.uint8)
    if not len(content) or len(content) % record_bytes:
        raise ValueError(
            f"{path} has {len(content)} bytes, not a multiple of {record_bytes}; download and unpack it again"
        )
    return content.reshape(-1, record_bytes)


def _parquet(paths: Sequence[Path], label_column: str) -> Labelled:
    """Return what Parquet files hold: decoded once for all processes, then mapped from the cache."""
    digest = digest_of(chain([label_column.encode()], (path.read_bytes() for path in paths)))
    try:
        folder = made(cache_folder("decoded") / digest)
        with held(folder, wait=True):  # other processes wait, and then read
            if not (folder / "images.npy").exists():
                decoded = _decoded(paths, label_column)
                for name, array in zip(("labels", "images"), reversed(decoded), strict=True):  # images come last
                    content = io.BytesIO()
                    np.save(content, array)
                    write_whole(folder / f"{name}.npy", content.getvalue())
        images = np.load(folder / "images.npy", mmap_mode="r")  # only what is used is read
        return np.asarray(images), np.load(folder / "labels.npy")
    except OSError:  # a cache that cannot be written is none
        return _decoded(paths, label_column)


def _decoded(paths: Sequence[Path], label_column: str) -> Labelled:
    images, labels = [], []
    for path in paths:
        for row, (stored, label) in enumerate(parquet_rows(path, "img", label_column)):
            images.append(np.asarray(decode_image(io.BytesIO(stored["bytes"]), f"row {row} of {path}")))
            labels.append(label)
    return np.stack(images), np.array(labels, np.int64)
