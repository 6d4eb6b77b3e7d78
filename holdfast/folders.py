"""Folders and files: where results are kept, one writer at a time, whole or not at all."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["cache_folder", "held", "made", "write_whole"]


def cache_folder(name: str) -> Path:
    """Return where one kind of results is kept: in HOLDFAST_CACHE, or in the user's own cache folder."""
    return Path(os.environ.get("HOLDFAST_CACHE") or Path.home() / ".cache" / "holdfast") / name


def made(folder: Path) -> Path:
    """Return a cache folder that exists."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OSError(f"nothing can be kept in {folder} ({error}); set HOLDFAST_CACHE to a folder") from error
    return folder


def write_whole(path: Path, content: bytes) -> None:
    """Write a file, and the folders above it, so that it appears whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        partial.write_bytes(content)
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)


@contextmanager
def held(folder: Path, *, wait: bool = False) -> Iterator[None]:
    """Hold a folder: others would write over what is written here. The lock dies with its process.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder, held(Path(folder)):
    ...     sorted(file.name for file in Path(folder).iterdir())
    ['lock']
    """
    with (folder / "lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise RuntimeError(
                f"{folder} is in use by another process; wait for it or choose another folder"
            ) from error
        yield
