"""The audit log: SQLite, append-only, every record chained to the one before by a hash."""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from holdfast.serve.decision import Decision

__all__ = ["AuditLog", "Verified", "contains_hash", "read_audit", "verify_audit"]

SCHEMA = """
CREATE TABLE IF NOT EXISTS decisions (
  number INTEGER PRIMARY KEY,
  record TEXT NOT NULL,
  hash TEXT NOT NULL,
  tenant TEXT GENERATED ALWAYS AS (json_extract(record, '$.tenant')) VIRTUAL,
  time REAL GENERATED ALWAYS AS (json_extract(record, '$.time')) VIRTUAL
);
CREATE INDEX IF NOT EXISTS by_tenant ON decisions (tenant, number);
CREATE TRIGGER IF NOT EXISTS no_update BEFORE UPDATE ON decisions
  BEGIN SELECT RAISE(ABORT, 'the audit log is append-only'); END;
CREATE TRIGGER IF NOT EXISTS no_delete BEFORE DELETE ON decisions
  BEGIN SELECT RAISE(ABORT, 'the audit log is append-only'); END;
"""
START = "0" * 32  # the hash before the first record


@dataclass(frozen=True)
class Verified:
    """The result of checking a log: how many records are good, the hash of the last of them, and what is wrong."""

    records: int
    head: str
    problem: str | None


class AuditLog:
    """Appends decisions to a log; a record is on its way to the disk when `append` returns.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "audit.db"
    >>> log = AuditLog(path)
    >>> _ = log.append(Decision(time=1.0, tenant="a", kind="reset", batch=0, before="", after=""))
    >>> log.close(); verify_audit(path).records
    1
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        try:
            os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))  # private, as the files that SQLite puts beside it
            self._connection = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
            last = self._prepared()
        except (sqlite3.OperationalError, OSError) as error:  # a full disk, a folder that takes no changes
            raise OSError(f"the audit log {path} cannot be opened ({error}); free space, or choose another") from error
        except sqlite3.DatabaseError as error:
            raise ValueError(f"{path} is not an audit log ({error}); choose another --state folder") from error
        self._number: int = last[0] if last else 0
        self.head: str = last[1] if last else START

    def _prepared(self) -> tuple[int, str] | None:
        """Create what is missing, and return the number and hash of the last record."""
        try:
            self._connection.execute("PRAGMA journal_mode=WAL")
            self._connection.execute("PRAGMA synchronous=NORMAL")
            self._connection.executescript(SCHEMA)
            newest = self._connection.execute("SELECT number, hash FROM decisions ORDER BY number DESC LIMIT 1")
            last: tuple[int, str] | None = newest.fetchone()
            return last
        except sqlite3.Error:
            self._connection.close()
            raise

    def append(self, decision: Decision) -> str:
        """Write a decision and return its hash; raises OSError if the disk does not take it."""
        record = json.dumps(decision.to_dict(), sort_keys=True, allow_nan=False)
        with self._lock:
            head = _chained(self.head, record)
            try:
                self._connection.execute(
                    "INSERT INTO decisions (number, record, hash) VALUES (?, ?, ?)", (self._number + 1, record, head)
                )
            except sqlite3.Error as error:
                raise OSError(f"the audit log takes no records ({error})") from error
            self._number, self.head = self._number + 1, head
            return head

    def latest(self, tenant: str, count: int) -> list[Decision]:
        """Return the last decisions of one tenant but for labels, oldest first; none if the disk cannot be read."""
        rows: list[tuple[str]] = []
        with self._lock, suppress(sqlite3.Error):
            rows = self._connection.execute(
                "SELECT record FROM decisions WHERE tenant = ? AND json_extract(record, '$.kind') != 'feedback' "
                "ORDER BY number DESC LIMIT ?",
                (tenant, count),
            ).fetchall()
        return [_decision(record) for (record,) in reversed(rows)]

    def close(self) -> None:
        """Bring everything into the one file and close it."""
        with self._lock:
            with suppress(sqlite3.Error):  # a full disk: the records stay in the log beside the file
                self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            self._connection.close()


def read_audit(path: Path, *, tenant: str | None = None, since: float = 0.0) -> Iterator[Decision]:
    """Yield the decisions of one tenant or all from a time on, in order; of a damaged log those before the damage."""
    connection = _opened(path)
    try:
        query = "SELECT record FROM decisions WHERE time >= ?" + ("" if tenant is None else " AND tenant = ?")
        for (record,) in connection.execute(query + " ORDER BY number", (since, *([] if tenant is None else [tenant]))):
            yield _decision(record)
    except (sqlite3.DatabaseError, ValueError, KeyError, TypeError):  # `verify_audit` says where
        return
    finally:
        connection.close()


def verify_audit(path: Path) -> Verified:
    """Check every record of a log against the chain of hashes."""
    connection = _opened(path)
    head, records = START, 0
    try:
        for number, record, found in connection.execute("SELECT number, record, hash FROM decisions ORDER BY number"):
            if number != records + 1:
                return Verified(records, head, f"record {records + 1} is missing: the next one is {number}")
            if found != _chained(head, record):
                return Verified(records, head, f"record {number} was changed: its hash does not match")
            head, records = found, number
    except sqlite3.DatabaseError as error:
        return Verified(records, head, f"the file is damaged after record {records} ({error})")
    finally:
        connection.close()
    return Verified(records, head, None)


def contains_hash(path: Path, head: str) -> bool:
    """Return whether a record of the log has a hash that was noted earlier."""
    connection = _opened(path)
    try:
        return connection.execute("SELECT 1 FROM decisions WHERE hash = ?", (head,)).fetchone() is not None
    finally:
        connection.close()


def _opened(path: Path) -> sqlite3.Connection:
    if not path.is_file():
        raise ValueError(f"there is no audit log at {path}; pass the file audit.db of a --state folder")
    connection = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)
    try:
        connection.execute("SELECT number, record, hash FROM decisions LIMIT 1").fetchone()
    except sqlite3.DatabaseError as error:
        connection.close()
        raise ValueError(f"{path} is not an audit log ({error}); pass the file audit.db of a --state folder") from error
    return connection


def _chained(previous: str, record: str) -> str:
    return hashlib.blake2b(f"{previous}\n{record}".encode(), digest_size=16).hexdigest()


def _decision(record: str) -> Decision:
    fields: dict[str, Any] = json.loads(record)
    fields["events"], fields["classes"] = tuple(fields["events"]), tuple(fields["classes"])
    return Decision(**fields)
