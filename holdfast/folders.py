"""Folders that one process at a time may write to."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["held"]


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
