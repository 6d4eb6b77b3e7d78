"""The audit log tells what changed, and shows when it was changed itself."""

from __future__ import annotations

import json
import sqlite3
import threading
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from holdfast.cli import app
from holdfast.serve.audit import AuditLog, read_audit, verify_audit
from holdfast.serve.decision import Decision
from tests.serve.conftest import batches, make_service

RUNNER = CliRunner()


def decision(number: int, **fields: Any) -> Decision:
    given = {"kind": "batch", "before": f"{number:032x}", "after": f"{number + 1:032x}", "committed": True, **fields}
    return Decision(time=1e9 + number, tenant="north" if number % 2 else "south", batch=number, **given)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "audit.db"
    written = AuditLog(path)
    for number in range(6):
        written.append(
            decision(number, events=("veto",) if number == 3 else (), reason="why not" if number == 3 else "")
        )
    written.close()
    return path


def forced(path: Path, change: str) -> None:
    """Change the file as someone would who removes the triggers first."""
    connection = sqlite3.connect(path)
    connection.executescript(f"DROP TRIGGER no_update; DROP TRIGGER no_delete; {change}")
    connection.commit()
    connection.close()


def test_an_untouched_log_is_intact_and_continues_after_a_restart(log: Path) -> None:
    again = AuditLog(log)
    again.append(decision(6))
    head = again.head
    assert [one.batch for one in again.latest("south", 2)] == [4, 6]
    again.close()
    checked = verify_audit(log)
    assert (checked.records, checked.head, checked.problem) == (7, head, None)
    assert [one.batch for one in read_audit(log, tenant="north")] == [1, 3, 5]
    assert [one.batch for one in read_audit(log, since=1e9 + 5)] == [5, 6]


def test_records_cannot_be_changed_or_removed(log: Path) -> None:
    connection = sqlite3.connect(log)
    for change in ("UPDATE decisions SET record = '{}'", "DELETE FROM decisions"):
        with pytest.raises(sqlite3.IntegrityError, match="append-only"):
            connection.execute(change)
    connection.close()


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (
            "UPDATE decisions SET record = replace(record, 'why not', 'all good') WHERE number = 4",
            "record 4 was changed",
        ),
        ("DELETE FROM decisions WHERE number = 3", "record 3 is missing"),
        ("UPDATE decisions SET hash = 'x' WHERE number = 2", "record 2 was changed"),
    ],
)
def test_tampering_is_found(log: Path, change: str, problem: str) -> None:
    forced(log, change)
    assert problem in str(verify_audit(log).problem)
    result = RUNNER.invoke(app, ["audit", str(log)])
    assert result.exit_code == 1
    assert "NOT intact" in result.output


def test_a_removed_end_is_found_with_a_head_noted_earlier(log: Path) -> None:
    head = verify_audit(log).head
    assert RUNNER.invoke(app, ["audit", str(log), "--head", head]).exit_code == 0
    forced(log, "DELETE FROM decisions WHERE number = 6")
    assert "records were removed" in RUNNER.invoke(app, ["audit", str(log)]).output
    (log.parent / "audit.head").unlink()  # whoever removes it with the record
    assert RUNNER.invoke(app, ["audit", str(log)]).exit_code == 0
    result = RUNNER.invoke(app, ["audit", str(log), "--head", head, "--json"])
    assert result.exit_code == 1
    assert "records were removed" in json.loads(result.output)["problem"]


def test_the_command_answers_what_changed_when_and_why(log: Path) -> None:
    shown = json.loads(RUNNER.invoke(app, ["audit", str(log), "--json"]).output)
    assert [one["reason"] for one in shown["decisions"]] == ["why not"]
    shown = json.loads(RUNNER.invoke(app, ["audit", str(log), "--json", "--no-events", "--tenant", "south"]).output)
    assert [one["batch"] for one in shown["decisions"]] == [0, 2, 4]
    result = RUNNER.invoke(app, ["audit", str(log.parent)])
    assert "2001-09-09 01:46:43" in result.output
    assert "the chain is intact" in result.output


def test_other_files_are_refused_in_one_sentence(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_text("no database " * 100)
    for path in (other, tmp_path / "missing"):
        with pytest.raises(ValueError, match="audit log"):
            verify_audit(path)
    with pytest.raises(ValueError, match="not an audit log"):
        AuditLog(other)


def test_actions_are_logged_in_the_order_in_which_they_happen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    service = make_service(tmp_path, guarded=False)
    service.tenants.step("north", batches(1)[0])
    freeze, frozen, resumed = service.tenants.freeze, threading.Event(), threading.Event()

    def freeze_slowly(tenant: str) -> Decision:
        done = freeze(tenant)
        frozen.set()
        resumed.wait(0.2)  # nobody resumes before this is logged
        return done

    monkeypatch.setattr(service.tenants, "freeze", freeze_slowly)
    freezing = threading.Thread(target=service.act, args=("freeze", "north"))
    freezing.start()
    assert frozen.wait(60)
    service.act("resume", "north")
    resumed.set()
    freezing.join()
    assert not service.tenants.status("north").frozen
    service.tenants.close()
    assert [one.kind for one in read_audit(tmp_path / "audit.db")] == ["freeze", "resume"]


def test_the_log_of_a_stopped_service_is_read_where_nothing_can_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "audit.db"
    log = AuditLog(path)
    log.append(Decision(time=1.0, tenant="north", kind="reset", batch=0, before="", after=""))
    log.close()
    connect = sqlite3.connect

    class ReadOnly(sqlite3.Connection):
        def execute(self, *_: Any) -> Any:
            raise sqlite3.OperationalError("disk I/O error")  # as for the shared memory beside a log

    def without_room(database: str, **options: Any) -> sqlite3.Connection:
        return connect(database, **options, factory=sqlite3.Connection if "immutable" in database else ReadOnly)

    monkeypatch.setattr(sqlite3, "connect", without_room)
    assert verify_audit(path).records == 1
    assert [one.tenant for one in read_audit(path)] == ["north"]
    (tmp_path / "audit.db-wal").write_bytes(b"")  # records may be in it
    with pytest.raises(OSError, match="cannot be read now"):
        verify_audit(path)
