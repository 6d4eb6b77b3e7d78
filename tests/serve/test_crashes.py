"""A killed process, a full disk, a log that someone changed: what was answered holds, and what is missing is said."""

from __future__ import annotations

import json
import shutil
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import torch
from fastapi.testclient import TestClient
from safetensors.torch import save
from typer.testing import CliRunner

from holdfast import GuardedModel
from holdfast.cli import app as commands
from holdfast.serve import audit as auditing
from holdfast.serve.app import create_app
from holdfast.serve.audit import AuditLog, read_audit, verify_audit
from holdfast.serve.decision import Decision
from holdfast.serve.head import Head, HeadFile
from holdfast.serve.limits import RefusedError
from holdfast.serve.state_folder import divided_among, shard_folder, shard_of
from holdfast.serve.tenants import Tenants
from holdfast.state import OtherStateError, SavedStateError, read_state
from holdfast.state.digest import digest_of
from holdfast.state.files import SCHEMA
from tests.serve.bodies import NPY, npy
from tests.serve.conftest import batches, make_service, network, wait_until

SENT: dict[str, Any] = {"content": npy(batches(1)[0].numpy()), "headers": NPY}


def killed(folder: Path, at: Path) -> Path:
    """Return a copy of a folder in use: what SIGKILL would leave there now."""
    return Path(shutil.copytree(folder, at, ignore=shutil.ignore_patterns("lock")))


def labelled(tenants: Tenants, batch: torch.Tensor) -> list[tuple[int, int, str]]:
    """Serve a batch, label all of it, and return id, label and tag of those that count."""
    serving = tenants.begin("north", batch)
    classes = serving.logits.argmax(1).tolist()
    serving.finish()
    sent = [(sample, int(label), serving.tag) for sample, label in zip(serving.ids, classes, strict=True)]
    yes = {"correct": True}  # the label is what was served, so that every second one may be a yes
    return [
        one
        for one in sent
        if tenants.feedback("north", one[0], tag=one[2], **({"label": one[1]} if one[0] % 2 else yes))
    ]


@pytest.mark.parametrize("every", [1, 3, 100])
def test_labels_that_count_outlive_a_kill(tmp_path: Path, every: int) -> None:
    tenants = Tenants(network(), "tent", folder=tmp_path / "state", budget=1.0, checkpoint_every=every)
    counted = [one for batch in batches(5) for one in labelled(tenants, batch)]
    assert len(counted) == 20
    bounds = tenants.bounds("north")
    folder = killed(tmp_path / "state", tmp_path / "killed")
    tenants.close()
    again = Tenants(network(), "tent", folder=folder, budget=1.0, checkpoint_every=every)
    assert again.bounds("north") == bounds
    assert not any(again.feedback("north", sample, label, tag=tag) for sample, label, tag in counted)
    assert again.bounds("north") == bounds
    again.close()
    assert verify_audit(folder / "audit.db").problem is None


def test_labels_outlive_a_kill_also_when_the_state_then_moves_to_a_shard(tmp_path: Path) -> None:
    tenants = Tenants(network(), "tent", folder=tmp_path / "state", budget=1.0)
    counted = [one for batch in batches(2) for one in labelled(tenants, batch)]
    bounds = tenants.bounds("north")
    folder = killed(tmp_path / "state", tmp_path / "killed")
    tenants.close()
    with divided_among(folder, 2, tenants.model):
        part = Tenants(network(), "tent", folder=shard_folder(folder, shard_of("north", 2)), budget=1.0)
        assert part.bounds("north") == bounds
        assert not part.feedback("north", *counted[-1][:2], tag=counted[-1][2])
        part.close()


class Full:
    """A connection to a database on a full disk."""

    def __init__(self, whole: Any) -> None:
        self.whole = whole

    def execute(self, statement: str, *values: Any) -> Any:
        if statement.startswith("INSERT"):
            raise sqlite3.OperationalError("database or disk is full")
        return self.whole.execute(statement, *values)

    def close(self) -> None:
        self.whole.close()


def fill(service: Any, monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Let the log take no records, and return what makes room."""
    log = service.tenants.disk.log
    whole = vars(log)["_connection"]
    monkeypatch.setattr(log, "_connection", Full(whole))
    return lambda: monkeypatch.setattr(log, "_connection", whole)


@pytest.mark.parametrize("kept", [2, 100])
def test_what_happens_while_the_disk_is_full_is_logged_later_or_said_to_be_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kept: int
) -> None:
    monkeypatch.setattr(auditing, "KEPT", kept)
    service = make_service(tmp_path, budget=1.0)
    with TestClient(create_app(service)) as client:
        client.post("/v1/predict", **SENT)
        wait_until(lambda: service.tenants.disk.log.records == 2)  # type: ignore[union-attr]
        make_room = fill(service, monkeypatch)
        for _ in range(3):
            client.post("/v1/predict", **SENT)
        client.post("/v1/reset")
        client.post("/v1/freeze")
        make_room()
        client.post("/v1/predict", **SENT)
    assert verify_audit(tmp_path / "audit.db").problem is None
    records = list(read_audit(tmp_path / "audit.db"))
    kinds = [one.kind for one in records]
    if kept == 100:
        assert kinds == ["started", "batch", "batch", "batch", "batch", "reset", "freeze", "batch", "stopped"]
    else:
        assert kinds == ["started", "batch", "batch", "batch", "missing", "stopped"]
        assert "4 decisions before this record were not logged" in records[4].reason
        shown = CliRunner().invoke(commands, ["audit", str(tmp_path)])
        assert "were not logged" in " ".join(shown.output.split())


def test_a_label_that_the_disk_does_not_take_is_refused_and_counts_when_it_is_sent_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = make_service(tmp_path, budget=1.0)
    with TestClient(create_app(service)) as client:
        prediction = client.post("/v1/predict", **SENT).json()
        wait_until(lambda: service.tenants.disk.log.records == 2)  # type: ignore[union-attr]
        make_room = fill(service, monkeypatch)
        sent = {"id": prediction["ids"][0], "label": prediction["classes"][0]}
        answer = client.post("/v1/feedback", json=sent)
        assert (answer.status_code, "send the label again" in answer.json()["error"]) == (503, True)
        make_room()
        assert client.post("/v1/feedback", json=sent).json() == {"counts": True}
    assert [one.kind for one in read_audit(tmp_path / "audit.db")].count("feedback") == 1


def test_a_start_after_a_kill_says_so(tmp_path: Path) -> None:
    service = make_service(tmp_path / "state")
    service.start()
    folder = killed(tmp_path / "state", tmp_path / "killed")
    service.stop()
    for state, said in ((folder, True), (tmp_path / "state", False)):
        again = make_service(state)
        again.start()
        again.stop()
        started = [one for one in read_audit(state / "audit.db") if one.kind == "started"]
        assert ("was killed" in started[-1].reason) is said


def decision(number: int) -> Decision:
    return Decision(time=float(number), tenant="a", kind="reset", batch=number, before="", after="")


def written(path: Path, count: int, head: Path | None = None) -> Path:
    log = AuditLog(path, head=head)
    for number in range(count):
        log.append(decision(number))
    log.close()
    return path


def cut(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.executescript("DROP TRIGGER no_delete; DELETE FROM decisions WHERE number > 3")


def swapped(path: Path) -> None:
    path.unlink()
    for number in range(7):
        written(path, 1, head=path.with_name(f"other-{number}"))
    assert verify_audit(path, head=path.with_name("no such file")).problem is None, "a good chain, of other records"


def forged(path: Path) -> None:
    written(path, 2, head=path.with_name("other-head"))


@pytest.mark.parametrize("change", [cut, swapped, forged, Path.unlink, lambda path: path.write_bytes(b"")])
@pytest.mark.parametrize("beside", [True, False])
def test_a_changed_log_is_found_without_asking_and_refused_at_the_start(
    tmp_path: Path, change: Callable[[Path], Any], beside: bool
) -> None:
    folder = tmp_path / "state"
    folder.mkdir()
    head = None if beside else tmp_path / "elsewhere"
    log = written(folder / "audit.db", 5, head)
    written(log, 1, head)  # as it was left, it is taken
    change(log)
    if log.is_file() and log.stat().st_size:
        command = ["audit", str(folder), *([] if head is None else ["--head", str(head)])]
        shown = CliRunner().invoke(commands, command)
        assert (shown.exit_code, "NOT intact" in shown.output) == (1, True)
    with pytest.raises(ValueError, match=r"is not the log that was written here: .* restore it from a backup"):
        AuditLog(log, head=head)
    with pytest.raises(ValueError, match="is not the log that was written here"):
        Tenants(network(), "tent", folder=folder, head=head)
    if beside:
        (folder / "audit.head").unlink()
        log.unlink(missing_ok=True)
        Tenants(network(), "tent", folder=folder).close()


def test_a_kill_between_head_and_record_is_no_change(tmp_path: Path) -> None:
    log = written(tmp_path / "audit.db", 2)
    end = verify_audit(log)
    early = HeadFile(tmp_path / "audit.head")
    early.note(Head(end.records, end.head, "f" * 32))  # the record was not written
    assert verify_audit(log).problem is None
    written(log, 0)
    with sqlite3.connect(log) as connection:
        (before,) = connection.execute("SELECT hash FROM decisions WHERE number = 1").fetchone()
    early.note(Head(1, before, end.head))  # the record was written, and nothing after it
    early.close()
    assert verify_audit(log).problem is None
    written(log, 1)
    assert verify_audit(log).records == 3


def test_a_state_nested_too_deeply_is_damaged(tmp_path: Path) -> None:
    tenants = Tenants(network(), "tent", folder=tmp_path)
    tenants.step("north", batches(1)[0])
    tenants.close()
    path = tmp_path / "north.safetensors"
    deep = '{"list": [' * 50_000 + "]}" * 50_000
    body = json.dumps({"recipe": {}, "weights": "", "note": None})[:-1] + f', "state": {deep}}}'
    path.write_bytes(save({}, {"holdfast": body, "schema": SCHEMA, "checksum": digest_of(body, [])}))
    with pytest.raises(SavedStateError, match=r"damaged \(maximum recursion depth"):
        read_state(path)
    again = Tenants(network(), "tent", folder=tmp_path)
    assert again.step("north", batches(1)[0]).logits.shape == (4, 10)
    assert (tmp_path / "north.damaged").is_file()
    again.close()


def test_ids_of_other_runs_take_no_labels(tmp_path: Path) -> None:
    tenants = Tenants(network(), "tent", folder=tmp_path, budget=1.0)
    assert isinstance(tenants.model, GuardedModel)
    labelled(tenants, batches(1)[0])
    for sample, tag in ((99, None), (0, "nobody")):
        with pytest.raises(RefusedError, match="no prediction has this id"):
            tenants.feedback("north", sample, 1, tag=tag)
    tenants.close()


def test_a_state_of_another_tenant_or_method_is_neither_used_nor_set_aside(tmp_path: Path) -> None:
    for tenant in ("north", "south"):
        adapted = Tenants(network(), "tent", guarded=False, folder=tmp_path)
        adapted.step(tenant, batches(1)[0])
        adapted.close()
    shutil.copy(tmp_path / "north.safetensors", tmp_path / "south.safetensors")
    with pytest.raises(OtherStateError, match=r"south.safetensors is the state of tenant north"):
        Tenants(network(), "tent", guarded=False, folder=tmp_path)
    (tmp_path / "south.safetensors").unlink()
    (tmp_path / "service.json").unlink()
    with pytest.raises(OtherStateError, match="saved by another recipe"):
        Tenants(network(), "eta", guarded=False, folder=tmp_path)
    (tmp_path / "service.json").unlink()
    running = Tenants(network(), "tent", guarded=False, folder=tmp_path, active=1)
    running.step("west", batches(1)[0])
    shutil.copy(tmp_path / "west.safetensors", tmp_path / "north.safetensors")  # while it runs
    with pytest.raises(RefusedError, match="of another model or tenant"):
        running.step("north", batches(1)[0])
    running.close()
    assert not list(tmp_path.glob("*.damaged"))


def test_a_stop_writes_states_although_the_disk_has_just_refused_one(tmp_path: Path) -> None:
    service = make_service(tmp_path, guarded=False, checkpoint_every=100)
    service.start()
    service.tenants.step("north", batches(1)[0])
    service.tenants.step("north", batches(1)[0])
    service.tenants.disk.stall("the disk is full")  # and has room again
    service.stop()
    again = Tenants(network(), "tent", guarded=False, folder=tmp_path)
    assert again.status("north").batches == 2
    again.close()
    assert [one.reason for one in read_audit(tmp_path / "audit.db")][-1] == "every state is on disk"


def test_a_log_that_another_process_holds_stops_nobody_and_is_complete_afterwards(tmp_path: Path) -> None:
    service = make_service(tmp_path, guarded=False)
    service.start()
    with closing(sqlite3.connect(tmp_path / "audit.db")) as other:
        other.execute("BEGIN IMMEDIATE")
        start = time.monotonic()
        service.record(service.tenants.step("north", batches(1)[0]) and decision(0))
        assert time.monotonic() - start < 3, "SQLite waits five seconds unless it is told otherwise"
        assert "locked" in str(service.tenants.disk.unrecorded)
        other.rollback()
    service.record(decision(1))
    service.stop()
    assert verify_audit(tmp_path / "audit.db").problem is None
    assert [one.batch for one in read_audit(tmp_path / "audit.db") if one.kind == "reset"] == [0, 1]


@pytest.mark.parametrize("replaced", [False, True])
def test_a_log_that_is_removed_while_the_service_runs_is_said(tmp_path: Path, replaced: bool) -> None:
    service = make_service(tmp_path, guarded=False)
    service.start()
    log = tmp_path / "audit.db"
    log.rename(tmp_path / "moved.db")
    if replaced:
        log.write_bytes((tmp_path / "moved.db").read_bytes())
    service.record(decision(0))
    assert "was removed while the service runs" in service.status()["audit"]["problem"]
    assert service.status()["learning_stopped"] is not None
    (tmp_path / "moved.db").replace(log)
    service.record(decision(1))
    assert service.status()["audit"]["problem"] is None
    service.stop()
    assert verify_audit(log).problem is None
    assert [one.batch for one in read_audit(log) if one.kind == "reset"] == [0, 1]


def test_a_start_without_the_noted_head_is_in_the_log(tmp_path: Path) -> None:
    for _ in range(2):
        service = make_service(tmp_path, guarded=False)
        service.start()
        service.stop()
        (tmp_path / "audit.head").unlink()
    started = [one.reason for one in read_audit(tmp_path / "audit.db") if one.kind == "started"]
    assert [" 2 records before this one are trusted" in reason for reason in started] == [False, True]
