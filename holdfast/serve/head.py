"""The head of an audit log in a file of its own: cutting, emptying or swapping the database, and additions, show."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

WIDTH = 160  # bytes: one write replaces the whole content


@dataclass(frozen=True)
class Head:
    """The last record of a log, and the hash of the record that is being written after it, if any."""

    records: int
    hash: str
    next: str = ""

    def is_end(self, records: int, last: str) -> bool:
        """Return whether a log may end so: the process may have ended before or after the record was written."""
        return (records, last) in ((self.records, self.hash), (self.records + 1, self.next))


class HeadFile:
    """Notes the head of a log before each record; a crash at any time leaves one of the two that `Head` names."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)

    def note(self, head: Head) -> None:
        """Replace the head; the process may be killed afterwards, the system may not."""
        os.pwrite(self._file, json.dumps(asdict(head)).ljust(WIDTH).encode(), 0)

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)


def head_beside(log: Path) -> Path:
    """Return the file beside a log that has its head, unless another one was chosen."""
    return log.with_name("audit.head")


def read_head(path: Path) -> Head | None:
    """Return the noted head, or None if there is none yet."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return None
    if not content.strip():
        return None
    try:
        return Head(**json.loads(content))
    except (ValueError, TypeError, RecursionError) as error:
        raise ValueError(f"{path} is damaged; restore it from a backup, or move it away to trust the log") from error
