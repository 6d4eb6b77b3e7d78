"""Download data sets that are free to use: resumed after an interruption, checked, and unpacked whole or not at all."""

from __future__ import annotations

import shutil
import tarfile
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from holdfast.machine.extras import extra
from holdfast.options.sources import Archive

Tell = Callable[[str, int, int | None], None]  # file, bytes so far, bytes in all if they are known
CHUNK = 2**20  # bytes
PATIENCE = 60.0  # seconds without an answer
PARTIAL_CONTENT, RANGE_NOT_SATISFIABLE = 206, 416


def fetch(archives: Sequence[Archive], location: Path, tell: Tell | None = None) -> Path:
    """Download archives, check them, and unpack them into a new folder, which is returned.

    Downloads are kept beside the folder until all are unpacked, so that another attempt resumes them. A file with
    another checksum is deleted. The one folder of a single archive becomes the folder itself.
    """
    pooch = extra("fetch", "pooch", "downloads need")
    waiting = location.parent / f".{location.name}.downloads"
    waiting.mkdir(parents=True, exist_ok=True)
    files = []
    for archive in archives:
        resumed = _Resumed(waiting / f"{archive.name}.partial", tell or (lambda *_: None))
        try:
            file = pooch.retrieve(
                archive.address, archive.checksum, fname=archive.name, path=waiting, downloader=resumed
            )
        except ValueError as error:  # pooch has deleted the file
            raise ValueError(
                f"{archive.address} is not the published file ({str(error).partition('.')[0]}); try again, or "
                f"download it from elsewhere and unpack it to {location}"
            ) from error
        except OSError as error:
            raise ValueError(
                f"{archive.address} cannot be downloaded ({error}); the same command resumes it"
            ) from error
        files.append(Path(file))
    unpacked = waiting / "unpacked"
    shutil.rmtree(unpacked, ignore_errors=True)  # of an attempt that was interrupted
    for file in files:
        _unpack(file, unpacked)
    inside = list(unpacked.iterdir())
    whole = inside[0] if len(files) == 1 and len(inside) == 1 and inside[0].is_dir() else unpacked
    whole.replace(location)
    shutil.rmtree(waiting)
    return location


class _Resumed:
    """A downloader for pooch that continues a partial file and reports its progress."""

    def __init__(self, partial: Path, tell: Tell) -> None:
        self.partial, self.tell = partial, tell

    def __call__(self, url: str, output_file: str, pooch: Any) -> None:
        import requests  # type: ignore[import-untyped,unused-ignore]  # comes with pooch

        there = self.partial.stat().st_size if self.partial.exists() else 0
        headers = {"Range": f"bytes={there}-"} if there else {}
        with requests.get(url, headers=headers, stream=True, timeout=PATIENCE) as answer:
            if answer.status_code != RANGE_NOT_SATISFIABLE:  # which a complete file gets
                answer.raise_for_status()
                there = there if answer.status_code == PARTIAL_CONTENT else 0  # some servers send all of it again
                self._append(answer, there)
        self.partial.replace(output_file)

    def _append(self, answer: Any, there: int) -> None:
        left = answer.headers.get("Content-Length")
        total = None if left is None else there + int(left)
        with self.partial.open("ab" if there else "wb") as file:
            for chunk in answer.iter_content(CHUNK):
                file.write(chunk)
                there += len(chunk)
                self.tell(self.partial.stem, there, total)
        if total is not None and there < total:
            raise OSError(f"the connection was closed after {there:,} of {total:,} bytes")


def _unpack(file: Path, folder: Path) -> None:
    """Unpack an archive; members that would lie outside the folder are refused."""
    if zipfile.is_zipfile(file):
        with zipfile.ZipFile(file) as packed:
            packed.extractall(folder)
    else:
        with tarfile.open(file) as tape:
            tape.extractall(folder, filter="data")
