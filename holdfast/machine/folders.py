"""Folders and files: the cache folder, locks, atomic writes, and the commit around a folder."""

from __future__ import annotations

import fcntl
import os
import secrets
import stat
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def cache_folder(name: str) -> Path:
    """Return the cache folder of one kind of result, in HOLDFAST_CACHE or in ~/.cache/holdfast."""
    return Path(os.environ.get("HOLDFAST_CACHE") or Path.home() / ".cache" / "holdfast") / name


def made(folder: Path) -> Path:
    """Create a cache folder if necessary and return it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OSError(
            f"the cache folder {folder} cannot be created ({error}); set HOLDFAST_CACHE to a writable folder"
        ) from error
    return folder


def temporary_for(path: Path) -> Path:
    """Return a new name beside a file for its content until it is complete; `sweep` finds it if the writer is killed.

    >>> temporary_for(Path("runs/rows.jsonl")).parent
    PosixPath('runs')
    """
    return path.with_name(f".{path.name}.{secrets.token_hex(8)}.partial")


def sweep(folder: Path) -> None:
    """Delete the temporary files of killed writers; the caller holds the folder, so that no writer is alive."""
    for left in folder.glob(".*.partial"):
        left.unlink(missing_ok=True)


def write_whole(path: Path, content: bytes, *, durably: bool = False) -> None:
    """Replace a file in one step, creating its folder if necessary; `durably` waits until the disk has it.

    A crash leaves the old file or the new one. Each call has a temporary file of its own, so that calls at the same
    time do not meet. A symbolic link keeps pointing to its target, and a device or pipe is written to, not replaced.
    """
    path = path.resolve()
    if path.exists() and not stat.S_ISREG(path.stat().st_mode):
        path.write_bytes(content)  # a folder says so itself
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = temporary_for(path)
    try:
        with writing(path), temporary.open("xb") as file:
            file.write(content)
            if durably:
                file.flush()
                os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    if durably:
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Name the file if the disk is full; the system does not."""
    try:
        yield
    except OSError as error:
        if error.filename is not None:
            raise
        raise OSError(
            f"{path} cannot be written ({error.strerror or error}); make room or choose another folder"
        ) from error


class InUseError(RuntimeError):
    """Another process holds a folder."""


@contextmanager
def held(folder: Path, *, wait: bool = False) -> Iterator[None]:
    """Lock a folder against other writers; the lock ends with the block or the process.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder, held(Path(folder)):
    ...     sorted(file.name for file in Path(folder).iterdir())
    ['lock']
    """
    with (folder / "lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise InUseError(f"{folder} is in use by another process; wait for it or choose another folder") from error
        yield


def commit_of(folder: Path | None = None) -> str | None:
    """Return the commit that git has checked out around a folder, by default this package; None for an installed one.

    Changes that are not committed are not seen.
    """
    start = Path(__file__).resolve().parents[1] if folder is None else folder
    try:
        asked = subprocess.run(
            ["git", "-C", str(start), "rev-parse", "HEAD"], capture_output=True, text=True, timeout=10, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return asked.stdout.strip()
