"""Data on disk: folders, arrays without pickles, published severities, and digests of content."""

from __future__ import annotations

import hashlib
import os
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray


def folder_at(folder: str | Path, remedy: str, unpacked: str = "") -> Path:
    """Return an existing folder, or the folder in it that an archive unpacks to; otherwise raise with the remedy.

    >>> folder_at("no/such", "unpack the archive")
    Traceback (most recent call last):
    ValueError: there is no folder no/such; unpack the archive
    """
    path = Path(folder).expanduser()
    if not path.is_dir():
        raise ValueError(f"there is no folder {path}; {remedy}")
    return path / unpacked if (path / unpacked).is_dir() else path


def array_at(path: Path) -> NDArray[Any]:
    """Return the array of an .npy file, memory-mapped."""
    try:
        array: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, OSError, EOFError) as error:
        raise ValueError(f"{path} is not a numeric array ({error}); download it again") from error
    return array


def arrays_at(path: Path, *names: str) -> list[NDArray[Any]]:
    """Return the arrays of these names from an .npz file."""
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as stored:
            missing = set(names) - set(stored.files)
            arrays = [] if missing else [stored[name] for name in names]
    except (ValueError, OSError, EOFError, AttributeError, TypeError, zipfile.BadZipFile) as error:
        raise ValueError(f"{path} has no numeric arrays ({error}); save it with numpy.savez") from error
    if missing:
        raise ValueError(f"{path} has no {' and no '.join(sorted(missing))}; save it with {', '.join(names)}")
    return arrays


def check_split(name: str, split: str, splits: Iterable[str]) -> None:
    """Raise for a split that a data set does not have.

    >>> check_split("digits", "dev", ["train", "test"])
    Traceback (most recent call last):
    ValueError: digits has no split 'dev'; choose train or test
    """
    *first, last = splits
    if split not in (*first, last):
        raise ValueError(f"{name} has no split {split!r}; choose {', '.join(first)} or {last}")


def severity_of(severity: float) -> int:
    """Return a published severity; others are refused.

    >>> severity_of(6)
    Traceback (most recent call last):
    ValueError: nothing was published at severity 6; choose 1, 2, 3, 4 or 5
    """
    if severity not in range(1, 6):
        raise ValueError(f"nothing was published at severity {severity:g}; choose 1, 2, 3, 4 or 5")
    return int(severity)


def digest_of(parts: Iterable[bytes]) -> str:
    """Return the hex digest of content that comes in parts.

    >>> digest_of([b"pixels", b"labels"]) == digest_of([b"pixelslabels"])
    True
    """
    content = hashlib.blake2b(digest_size=16)
    for part in parts:
        content.update(part)
    return content.hexdigest()


def pieces_of(folder: Path, files: Sequence[str], length: int, *, middle: bool = False) -> Iterator[bytes]:
    """Yield name and size of each file, and its last bytes or those in its middle: what tells it from others."""
    for name in files:
        with (folder / name).open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - length) // (2 if middle else 1))
            yield f"\n{name}\n{size}\n".encode()
            yield file.read(length)
