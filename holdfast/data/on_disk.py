"""Check data on disk: folders, arrays without pickles, and published severities."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray


def folder_at(folder: str | Path, remedy: str) -> Path:
    """Return an existing folder; otherwise raise an error with the remedy.

    >>> folder_at("no/such", "unpack the archive")
    Traceback (most recent call last):
    ValueError: there is no folder no/such; unpack the archive
    """
    path = Path(folder).expanduser()
    if not path.is_dir():
        raise ValueError(f"there is no folder {path}; {remedy}")
    return path


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


def severity_of(severity: float) -> int:
    """Return a published severity; others are refused.

    >>> severity_of(6)
    Traceback (most recent call last):
    ValueError: nothing was published at severity 6; choose 1, 2, 3, 4 or 5
    """
    if severity not in range(1, 6):
        raise ValueError(f"nothing was published at severity {severity:g}; choose 1, 2, 3, 4 or 5")
    return int(severity)
