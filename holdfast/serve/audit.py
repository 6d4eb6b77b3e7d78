"""The audit log: SQLite, append-only, every record chained to the one before by a hash."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import sqlite3
import time
from collections import deque
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from holdfast.serve.decision import Decision
from holdfast.serve.head import Head, HeadFile, head_beside, read_head

LOG = logging.getLogger(__name__)

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
KEPT = 10_000  # decisions that wait for a disk to take them
BUSY_SECONDS = 0.2  # to wait for another process that holds the log; its records wait here in the meantime


@dataclass(frozen=True)
class Verified:
    """The result of checking a log: how many records are good, the hash of the last of them, and what is wrong."""

    records: int
    head: str
    problem: str | None


class AuditLog:
    """Appends decisions to a log, one thread at a time; a record is on its way to the disk when `append` returns.

    The head of the chain is also in a file of its own, by default `audit.head` beside the log: a log that does not end
    as that says is refused.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "audit.db"
    >>> log = AuditLog(path)
    >>> log.append(Decision(time=1.0, tenant="a", kind="reset", batch=0, before="", after=""))
    >>> log.close(); verify_audit(path).records
    1
    """

    def __init__(self, path: Path, *, head: Path | None = None) -> None:
        self.path = path
        self._late: deque[Decision] = deque()  # that the disk did not take yet, in their order
        self._missing = 0  # decisions after those, when there were too many
        try:
            created = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)  # private, as the files that SQLite puts beside it
            self._file = _identity(os.fstat(created))
            os.close(created)
            self._connection = sqlite3.connect(
                path, check_same_thread=False, isolation_level=None, timeout=BUSY_SECONDS
            )
            last = self._prepared()
            self.records, self.head, self.ended = last or (0, START, "stopped")
            self._noted = self._opened_head(head or head_beside(path))
        except (sqlite3.OperationalError, OSError) as error:  # a full disk, a folder that takes no changes
            raise OSError(f"the audit log {path} cannot be opened ({error}); free space, or choose another") from error
        except sqlite3.DatabaseError as error:
            raise ValueError(f"{path} is not an audit log ({error}); choose another --state folder") from error

    def _opened_head(self, noted: Path) -> HeadFile:
        try:
            self.trusted = 0 if read_head(noted) is not None else self.records  # which no head confirms
            return HeadFile(_agreed(self.path, noted, self.records, self.head))
        except (OSError, ValueError):
            self._connection.close()
            raise

    def _prepared(self) -> tuple[int, str, str] | None:
        """Create what is missing, and return number, hash and kind of the last record."""
        try:
            self._connection.execute("PRAGMA journal_mode=WAL")
            self._connection.execute("PRAGMA synchronous=NORMAL")
            self._connection.executescript(SCHEMA)
            newest = "SELECT number, hash, json_extract(record, '$.kind') FROM decisions ORDER BY number DESC LIMIT 1"
            last: tuple[int, str, str] | None = self._connection.execute(newest).fetchone()
            return last
        except sqlite3.Error:
            self._connection.close()
            raise

    def append(self, decision: Decision) -> None:
        """Write a decision after those that wait; if the disk does not take it, it waits too, and OSError is raised."""
        if len(self._late) < KEPT:
            self._late.append(decision)
        else:
            self._missing += 1
        self._catch_up()

    def write(self, decision: Decision) -> None:
        """Write a decision now or not at all: raises OSError if the disk does not take it."""
        self._catch_up()
        self._insert(decision)

    def _catch_up(self) -> None:
        while self._late:
            self._insert(self._late[0])
            self._late.popleft()
        if self._missing:
            reason = f"{self._missing} decisions before this record were not logged: the disk took no records"
            self._insert(
                Decision(time=time.time(), tenant="", kind="missing", batch=0, before="", after="", reason=reason)
            )
            self._missing = 0

    def _insert(self, decision: Decision) -> None:
        record = json.dumps(decision.to_dict(), sort_keys=True, allow_nan=False)
        following = _chained(self.head, record)
        try:
            if _identity(self.path.stat()) != self._file:
                raise FileNotFoundError("another file is in its place")
            self._noted.note(Head(self.records, self.head, following))
            self._connection.execute(
                "INSERT INTO decisions (number, record, hash) VALUES (?, ?, ?)", (self.records + 1, record, following)
            )
        except FileNotFoundError as error:
            raise OSError(f"{self.path} was removed while the service runs; put it back, or restart") from error
        except sqlite3.Error as error:
            raise OSError(f"the audit log takes no records ({error})") from error
        self.records, self.head = self.records + 1, following

    def latest(self, tenant: str, count: int) -> list[Decision]:
        """Return the last decisions of one tenant but for labels, oldest first; none if the disk cannot be read."""
        rows: list[tuple[str]] = []
        with suppress(sqlite3.Error):
            rows = self._connection.execute(
                "SELECT record FROM decisions WHERE tenant = ? AND json_extract(record, '$.kind') != 'feedback' "
                "ORDER BY number DESC LIMIT ?",
                (tenant, count),
            ).fetchall()
        return [_decision(record) for (record,) in reversed(rows)]

    def close(self) -> None:
        """Write what waits, bring everything into the one file and close it."""
        try:
            self._catch_up()
            self._noted.note(Head(self.records, self.head))
        except OSError as error:
            LOG.error("%d decisions are not in the log: %s", len(self._late) + self._missing, error)
        with suppress(sqlite3.Error):  # a full disk: the records stay in the log beside the file
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        self._connection.close()
        self._noted.close()


def labels_after(path: Path, tenant: str, number: int, head: str) -> list[Decision] | None:
    """Return the labels of a tenant in a log after the record with a number and hash; None if it has no such record."""
    since = "FROM decisions WHERE tenant = ? AND number > ? AND json_extract(record, '$.kind') = 'feedback'"
    try:
        with closing(_opened(path)) as connection:
            known = connection.execute("SELECT 1 FROM decisions WHERE number = ? AND hash = ?", (number, head))
            if (number, head) != (0, START) and known.fetchone() is None:
                return None
            rows = connection.execute(f"SELECT record {since} ORDER BY number", (tenant, number)).fetchall()
    except (sqlite3.DatabaseError, ValueError, OSError) as error:
        LOG.error("the labels of tenant %s in %s cannot be read: %s", tenant, path, error)
        return None
    return [_decision(record) for (record,) in rows]


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


def verify_audit(path: Path, *, head: Path | None = None) -> Verified:
    """Check every record of a log against the chain of hashes, and its end against the head noted beside it."""
    noted = head or head_beside(path)
    before, log = read_head(noted), _verified(path)
    if before is None or log.problem is not None:
        return log
    if read_head(noted) == before:
        agrees = before.is_end(log.records, log.head)
    else:  # a service is writing: the head from before is not the end any more, and has to be in the log
        agrees = before.records == 0 or contains_hash(path, before.hash)
    return log if agrees else replace(log, problem=_disagreement(noted, before, log.records))


def _verified(path: Path) -> Verified:
    connection = _opened(path)
    head, records = START, 0
    try:
        for number, record, written in connection.execute("SELECT number, record, hash FROM decisions ORDER BY number"):
            if number != records + 1:
                return Verified(records, head, f"record {records + 1} is missing: the next one is {number}")
            if written != _chained(head, record):
                return Verified(records, head, f"record {number} was changed: its hash does not match")
            head, records = written, number
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
    try:
        return _readable(path, "mode=ro")
    except sqlite3.OperationalError as error:  # SQLite writes a file beside it, which no full or read-only disk takes
        if path.with_name(f"{path.name}-wal").exists():
            raise OSError(f"{path} cannot be read now ({error}); make room beside it, or copy the folder") from error
    except sqlite3.DatabaseError as error:
        raise _not_a_log(path, error) from error
    try:
        return _readable(path, "mode=ro&immutable=1")  # the service was stopped: the file is complete
    except sqlite3.DatabaseError as error:
        raise _not_a_log(path, error) from error


def _readable(path: Path, options: str) -> sqlite3.Connection:
    connection = sqlite3.connect(f"{path.resolve().as_uri()}?{options}", uri=True)
    try:
        connection.execute("SELECT number, record, hash FROM decisions LIMIT 1").fetchone()
    except sqlite3.Error:
        connection.close()
        raise
    return connection


def _not_a_log(path: Path, error: sqlite3.Error) -> ValueError:
    return ValueError(f"{path} is not an audit log ({error}); pass the file audit.db of a --state folder")


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


def _chained(previous: str, record: str) -> str:
    return hashlib.blake2b(f"{previous}\n{record}".encode(), digest_size=16).hexdigest()


def _decision(record: str) -> Decision:
    fields: dict[str, Any] = json.loads(record)
    fields["events"], fields["classes"] = tuple(fields["events"]), tuple(fields["classes"])
    return Decision(**fields)


def _agreed(path: Path, noted: Path, records: int, last: str) -> Path:
    """Return the file of a log's head; refuse a log that does not end as it says."""
    head = read_head(noted)
    if head is not None and not head.is_end(records, last):
        raise ValueError(
            f"{path} is not the log that was written here: {_disagreement(noted, head, records)}; restore it from a "
            f"backup, or move {path.name} and {noted.name} away to begin a new log"
        )
    if head is None and records:
        LOG.warning("the head of %s was not noted before; its %d records are trusted", path, records)
    return noted


def _disagreement(noted: Path, head: Head, records: int) -> str:
    if records < head.records:
        return f"{noted.name} says that it has {head.records} records, and it has {records}: records were removed"
    return f"it does not end with the record that {noted.name} names: it was swapped, or records were added"
