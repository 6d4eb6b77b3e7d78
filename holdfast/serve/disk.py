"""The disk under a service: the states of its tenants and the audit log, in a folder that no other process uses."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

from holdfast.machine.folders import held, sweep
from holdfast.model.adapted import AdaptedModel
from holdfast.model.given import check_header
from holdfast.model.guarded import GuardedModel
from holdfast.serve.audit import AuditLog, labels_after
from holdfast.serve.decision import Decision
from holdfast.serve.limits import RefusedError
from holdfast.serve.state_folder import LOG_NAME, audit_logs, divided, keep_private, private, sign
from holdfast.serve.tenant import Tenant
from holdfast.state import OtherStateError, SavedStateError, read_state

LOG = logging.getLogger(__name__)
RETRY_SECONDS = 10.0  # after the disk refused a state


def ids_given(model: AdaptedModel) -> int:
    """Return how many samples of the stream in the model have ids."""
    return model.audit.served if isinstance(model, GuardedModel) else 0


class Disk:
    """Writes and reads the state that is in the model, and the log; without a folder it does nothing.

    When the disk refuses a state or a record, `stalled` says why: nothing is to be adapted until it takes one again.
    """

    def __init__(self, model: AdaptedModel, folder: Path | None, *, head: Path | None = None) -> None:
        self.model, self.folder = model, folder
        self.log: AuditLog | None = None
        self.stalled: str | None = None  # why nothing is adapted
        self.unrecorded: str | None = None  # why the log is not written
        self._retry_at = 0.0
        self._owned = ExitStack()
        self.tenants = [] if folder is None else self._open(folder, head)  # those that had a state at the start

    def _open(self, folder: Path, head: Path | None) -> list[Tenant]:
        """Own the folder, check that its states are of this model, open the log, and return the tenants."""
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._owned.enter_context(held(folder))
        except OSError as error:
            raise OSError(f"the state folder {folder} cannot be used ({error.strerror}); choose another") from error
        try:
            sweep(folder)
            divided(folder, 0, self.model)  # replicas may have had it before
            sign(folder, self.model)
            keep_private(folder)
            tenants = [self._noted(Tenant(path.stem)) for path in sorted(folder.glob("*.safetensors"))]
            self.log = AuditLog(folder / LOG_NAME, head=head)
        except BaseException:
            self._owned.close()
            raise
        return tenants

    def _noted(self, entry: Tenant) -> Tenant:
        """Return a tenant with the counts in its file; refuse the state of another tenant, model, recipe or version."""
        path = self._path(entry)
        try:
            header = read_state(path)[1]
            check_header(path, header, recipe=self.model.recipe, weights=self.model.weights)
            self._restore(entry, header["note"])
        except OtherStateError:
            raise
        except (SavedStateError, KeyError, TypeError, ValueError, OSError):  # reported when it is used
            return Tenant(entry.name)
        return entry

    def _restore(self, entry: Tenant, note: Mapping[str, Any]) -> None:
        """Take the counts in the file of a tenant."""
        if note["tenant"] != entry.name:
            raise OtherStateError(f"{self._path(entry)} is the state of tenant {note['tenant']}; move it back")
        entry.restore(note)

    def close(self) -> None:
        """Close the log, and give the folder to others."""
        if self.log is not None:
            self.log.close()
            self.log = None
        self._owned.close()

    def stall(self, reason: str) -> None:
        """Adapt to nothing until the disk takes a state again."""
        self.stalled, self._retry_at = reason, time.monotonic() + RETRY_SECONDS

    @property
    def _waiting(self) -> bool:
        return self.stalled is not None and time.monotonic() < self._retry_at

    # States -----------------------------------------------------------------------------------------------

    def write(self, entry: Tenant, *, last: bool = False) -> None:
        """Write the state that is in the model; if the disk does not take it, nothing is adapted until it does.

        A disk that refused is tried again after a while; at once if this is the `last` time.
        """
        if self.folder is None or (self._waiting and not last):
            return
        try:
            self.model.save(self._path(entry), note=self.note(entry))
            private(self._path(entry))
        except OSError as error:
            self.stall(f"the disk takes no states ({error.strerror or error}); nothing is adapted until it does")
            LOG.error("%s", self.stalled)
            return
        self.stalled = None
        entry.count_write(ids_given(self.model))

    def read(self, entry: Tenant) -> bool:
        """Load a state into the model, and return True; set aside a damaged file, and return False.

        Damage is content that fails its check, or a file that is gone. What hinders reading it leaves it as it is.
        """
        try:
            note = self.model.load(self._path(entry))
            self._restore(entry, note)
        except (OSError, SavedStateError, KeyError, TypeError, ValueError) as error:
            hindered = isinstance(error, OSError) and not isinstance(error, FileNotFoundError)
            if hindered or isinstance(error, OtherStateError):
                LOG.error("the state of tenant %s cannot be read now: %s", entry.name, error)
                why = error.strerror if isinstance(error, OSError) else "it is of another model or tenant"
                raise RefusedError(
                    503, f"the state of this tenant cannot be read now ({why}); try again later"
                ) from error
            self._set_aside(entry, error)
            return False
        if note.get("logged") is not None:
            self._replay_labels(entry, note["logged"])
        return True

    def note(self, entry: Tenant) -> dict[str, Any]:
        """Return what is written beside the state that is in the model."""
        return entry.note(ids_given(self.model), None if self.log is None else [self.log.records, self.log.head])

    def _path(self, entry: Tenant) -> Path:
        assert self.folder is not None
        return self.folder / f"{entry.name}.safetensors"

    def _set_aside(self, entry: Tenant, error: Exception) -> None:
        path = self._path(entry)
        LOG.error("the state of tenant %s cannot be used and is set aside: %s", entry.name, error)
        with suppress(OSError):  # it may be gone, or the folder take no changes
            path.rename(path.with_suffix(".damaged"))

    # The log ----------------------------------------------------------------------------------------------

    def record(self, decision: Decision) -> None:
        """Write a decision to the log; if the disk does not take it, it waits, and nothing is adapted until it does."""
        if self.log is None:
            return
        try:
            self.log.append(decision)
            self.unrecorded = None
        except OSError as error:
            self.unrecorded = str(error)
            self.stall(self.unrecorded)

    def record_label(self, entry: Tenant, decision: Decision, *, counts: bool) -> None:
        """Write the state with the sample and then its label, or refuse the label."""
        if self.log is None:
            return
        assert decision.sample is not None
        if counts and decision.sample >= entry.saved_ids:
            self.write(entry)
            if decision.sample >= entry.saved_ids:
                raise RefusedError(503, "the disk takes no states now; send the label again later")
        try:
            self.log.write(decision)
        except OSError as error:
            self.stall(str(error))
            raise RefusedError(503, "the disk takes no records now; send the label again later") from error

    def _replay_labels(self, entry: Tenant, logged: Sequence[Any]) -> None:
        """Take the labels that came after a state was written; `logged` are number and hash of the record before."""
        if self.folder is None or not isinstance(self.model, GuardedModel):
            return
        number, head = int(logged[0]), str(logged[1])
        family = {path: None for one in (self.folder, self.folder.parent) for path in audit_logs(one)}
        in_each = (labels_after(path, entry.name, number, head) for path in family)  # it may come from another shard
        for one in next((labels for labels in in_each if labels is not None), []):
            if one.sample is not None and entry.issued(one.run, one.sample):
                self.model.feedback(one.sample, one.label, correct=one.correct)
                entry.count_label()
