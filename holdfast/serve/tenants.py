"""Tenants: one network in memory, and one small state of adaptation for each stream."""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from torch import Tensor, nn

from holdfast.evidence.checks import class_or_none
from holdfast.machine.folders import held, sweep
from holdfast.methods.guard import Guard
from holdfast.model.adapt import adapt
from holdfast.model.adapted import AdaptedModel, SourceBatch
from holdfast.model.guarded import GuardedModel, guard
from holdfast.model.pending import Pending
from holdfast.records import Step
from holdfast.serve.audit import AuditLog, labels_after
from holdfast.serve.decision import Decision, decide
from holdfast.serve.limits import RefusedError, check_tenant
from holdfast.serve.resident import Resident
from holdfast.serve.state_folder import LOG_NAME, audit_logs, divided, private, sign
from holdfast.state import SavedStateError, read_state

__all__ = ["Serving", "Tenant", "Tenants"]

LOG = logging.getLogger(__name__)
RETRY_SECONDS = 10.0  # after the disk refused a state
RUNS_KEPT = 64  # restores whose ids still take labels


@dataclass
class Tenant:
    """One stream: its counts, and its state unless that is in the model now or on disk."""

    name: str
    batches: int = 0
    samples: int = 0
    saved_at: int = -1  # batches at the last write; -1: never
    labelled: bool = False  # whether labels came since then
    saved_ids: int = 0  # samples served at the last write: their labels outlive a crash once they are logged
    frozen: bool = False
    digest: str = ""  # of the state
    resident: Resident | None = None
    runs: tuple[tuple[str, int], ...] = ()  # the tag of the ids given out since each restore, and the first of them
    tagged: bool = False  # whether the last of them is of this process

    @property
    def dirty(self) -> bool:
        """Whether the disk has an older state, or none."""
        return self.saved_at != self.batches or self.labelled


class Serving:
    """A pending batch of one tenant; after `finish`, `decision` says what was done."""

    decision: Decision

    def __init__(
        self,
        tenants: Tenants,
        entry: Tenant,
        pending: Pending,
        *,
        frozen: str | None,
        tag: str,
        seconds: tuple[float, float],
    ) -> None:
        self.logits, self.predicts = pending.logits, pending.predicts
        self.ids, self.wants_label = pending.ids, pending.wants_label
        self.seconds = seconds  # when predicting began and ended
        self.tag = tag  # of the ids: those of a state that was lost in a crash are nobody's
        self.entry, self.batch, self.before = entry, entry.batches, entry.digest
        self.pending, self.frozen = pending, frozen  # why nothing is adapted
        self._tenants = tenants
        self._step: Step | None = None

    def finish(self) -> Step:
        """Adapt to the batch and write down what was done; a second call returns the same step."""
        with self._tenants.lock:
            if self._step is None:
                self._step, self.decision = self._tenants.finish(self)
            return self._step


class Tenants:
    """Streams that share one network and never mix: each has its own state of adaptation, as `save` writes it.

    The state of a stream is put into the network when a batch of it arrives, under one lock. The `active` streams used
    last stay in memory; the others are on disk in `folder`, where every state is also written each `checkpoint_every`
    batches, beside the audit log. A label is in the log before it counts, and its sample in a state on disk. Without a
    folder all stay in memory. `guarded=False` serves the method alone; further keywords go to
    `holdfast.guard`, or to `holdfast.adapt` without the guard. `model` may also be an adapted model.

    >>> import torch
    >>> from holdfast.models.tiny import tiny_resnet
    >>> tenants = Tenants(tiny_resnet(), "tent", guarded=False)
    >>> for camera in ("north", "south", "north"):
    ...     step = tenants.step(camera, torch.rand(8, 3, 32, 32))
    >>> tenants.names(), tenants.status("north").batches
    (['north', 'south'], 2)
    """

    def __init__(
        self,
        model: nn.Module | str,
        method: str = "auto",
        *,
        guarded: bool = True,
        folder: str | Path | None = None,
        head: Path | None = None,
        active: int = 64,
        limit: int = 1000,
        checkpoint_every: int = 16,
        source: Iterable[SourceBatch] | None = None,
        holdout: Iterable[SourceBatch] | None = None,
        options: Mapping[str, Any] | None = None,
        **building: Any,
    ) -> None:
        for name, value in {"active": active, "limit": limit, "checkpoint_every": checkpoint_every}.items():
            if value < 1:
                raise ValueError(f"{name} must be at least 1, got {value}")
        if isinstance(model, AdaptedModel):
            self.model = model
        elif guarded:
            self.model = guard(model, method, options=options, source=source, holdout=holdout, **building)  # type: ignore[arg-type]
        else:
            self.model = adapt(model, method, source=source, holdout=holdout, **{**(options or {}), **building})
        self.active, self.limit, self.checkpoint_every = active, limit, checkpoint_every
        self._listener: Callable[[Decision], None] = self.record
        self.stalled: str | None = None  # why nothing is adapted: the disk takes no states
        self.unrecorded: str | None = None  # why the log is not written
        self._retry_at = 0.0
        self.lock = threading.RLock()
        self._pending: Serving | None = None
        self._inside: Tenant | None = None  # whose state is in the model
        self._fresh = Resident.of(self.model.snapshot())
        self._fresh_digest = self.model.digest()
        self._tenants: OrderedDict[str, Tenant] = OrderedDict()  # used last at the end
        self._owned = ExitStack()
        self.folder = None if folder is None else Path(folder)
        self.log: AuditLog | None = None
        if self.folder is not None:
            self._open(self.folder, head)

    # Use --------------------------------------------------------------------------------------------------

    def step(self, tenant: str, inputs: Tensor) -> Step:
        """Predict a batch of one stream and adapt to it."""
        with self.lock:
            return self.begin(tenant, inputs).finish()

    def begin(self, tenant: str, inputs: Tensor) -> Serving:
        """Predict a batch of one stream now and adapt to it later; any other use finishes it first."""
        with self.lock:
            entry = self._enter(tenant)
            frozen = "the tenant is frozen" if entry.frozen else self._stalled()
            tag, started = self._tag(entry), time.perf_counter()
            pending = self.model.begin(inputs, adapt=frozen is None)
            seconds = started, time.perf_counter()
            self._pending = Serving(self, entry, pending, frozen=frozen, tag=tag, seconds=seconds)
            return self._pending

    def finish(self, serving: Serving) -> tuple[Step, Decision]:
        """Adapt to a pending batch; return the step and what is written down of it."""
        self._pending = None
        started, predicted = serving.seconds
        step, entry = serving.pending.finish(), serving.entry
        after = serving.before if serving.frozen is not None else self.model.digest()
        entry.batches, entry.samples, entry.digest = serving.batch + 1, entry.samples + len(step.logits), after
        decision = decide(
            step,
            time=time.time(),
            tenant=entry.name,
            batch=serving.batch,
            digests=(serving.before, after),
            frozen=serving.frozen,
            served=self._served,
            seconds=(predicted - started, time.perf_counter() - started),
            run=serving.tag,
            first=serving.ids[0] if serving.ids else None,
        )
        self._checkpoint(entry)
        return step, decision

    def tell(self, listener: Callable[[Decision], None]) -> None:
        """Call this with each decision that no caller asked for, such as a damaged state, instead of `record`."""
        self._listener = listener

    def record(self, decision: Decision) -> None:
        """Write a decision to the log; if the disk does not take it, it waits, and nothing is adapted until it does."""
        with self.lock:
            if self.log is None:
                return
            try:
                self.log.append(decision)
                self.unrecorded = None
            except OSError as error:
                self.unrecorded = str(error)
                self.stall(self.unrecorded)

    def latest(self, tenant: str, count: int) -> list[Decision]:
        """Return the last decisions of one stream in the log, oldest first."""
        with self.lock:
            return [] if self.log is None else self.log.latest(tenant, count)

    def feedback(
        self,
        tenant: str,
        sample_id: int,
        label: int | None = None,
        *,
        correct: bool | None = None,
        tag: str | None = None,
    ) -> bool:
        """Take the label of a sample, or whether its prediction is correct, and return whether it counts.

        What counts in the tenant's audit outlives a crash. With a `tag` (`Serving.tag`) ids of predictions that a crash
        has lost are refused: other samples have them now.
        """
        if not isinstance(self.model, GuardedModel):
            raise RefusedError(409, "labels are taken by guarded models only; start the service without --no-guard")
        label = class_or_none(label, correct, classes=self.model.method.model.num_classes)
        with self.lock:
            entry = self._enter(tenant, new=False)
            if tag is not None and not _issued(entry.runs, tag, sample_id):
                raise RefusedError(404, "no prediction has this id")
            audit = self.model.audit
            if sample_id >= audit.served:
                raise RefusedError(404, "no prediction has this id")
            self._log_label(entry, sample_id, label, correct, counts=sample_id in audit.waiting)
            counts = self.model.feedback(sample_id, label, correct=correct)
            entry.labelled = True
            return counts

    def _log_label(
        self, entry: Tenant, sample_id: int, label: int | None, correct: bool | None, *, counts: bool
    ) -> None:
        """Write the sample and then its label to the disk, or refuse the label."""
        if self.log is None:
            return
        if counts and sample_id >= entry.saved_ids:
            self._write(entry)
            if sample_id >= entry.saved_ids:
                raise RefusedError(503, "the disk takes no states now; send the label again later")
        decision = replace(
            self._done(
                entry, "feedback", entry.digest, "it counts" if counts else "it was not asked for, or came twice"
            ),
            run=next((tag for tag, first in reversed(entry.runs) if first <= sample_id), ""),
            sample=sample_id,
            label=label,
            correct=correct,
        )
        try:
            self.log.write(decision)
        except OSError as error:
            self.stall(str(error))
            raise RefusedError(503, "the disk takes no records now; send the label again later") from error

    def _replay_labels(self, entry: Tenant, logged: Sequence[Any]) -> None:
        """Take the labels that came after a state was written; `logged` are number and hash of the record before."""
        assert self.folder is not None
        assert isinstance(self.model, GuardedModel)
        number, head = int(logged[0]), str(logged[1])
        family = {path: None for one in (self.folder, self.folder.parent) for path in audit_logs(one)}
        found = (labels_after(path, entry.name, number, head) for path in family)  # it may have moved to another shard
        for one in next((labels for labels in found if labels is not None), []):
            if one.sample is not None and _issued(entry.runs, one.run, one.sample):
                self.model.feedback(one.sample, one.label, correct=one.correct)
                entry.labelled = True

    def _tag(self, entry: Tenant) -> str:
        """Return the tag of the ids that a stream gives out, a new one after each restore."""
        if not entry.tagged:
            entry.runs, entry.tagged = (*entry.runs, (secrets.token_hex(3), self._ids()))[-RUNS_KEPT:], True
        return entry.runs[-1][0]

    def bounds(self, tenant: str) -> dict[str, tuple[float, float]]:
        """Return the bounds of accuracy and gain that labels guarantee; empty without the guard."""
        if not isinstance(self.model, GuardedModel):
            return {}
        with self.lock:
            self._enter(tenant, new=False)
            found = {"accuracy": self.model.accuracy(), "gain": self.model.gain()}
        return {name: (interval.low, interval.high) for name, interval in found.items()}

    def reset(self, tenant: str) -> Decision:
        """Return a stream to the state at construction; the labels of a guarded model stay."""
        with self.lock:
            entry = self._enter(tenant, new=False)
            before = entry.digest
            self.model.reset()
            entry.digest, entry.saved_at = self.model.digest(), -1
            self._write(entry)
            return self._done(entry, "reset", before)

    def freeze(self, tenant: str) -> Decision:
        """Predict this stream without adapting, until `resume`."""
        return self._set_frozen(tenant, True)

    def resume(self, tenant: str) -> Decision:
        """Adapt to this stream again."""
        return self._set_frozen(tenant, False)

    def export(self, tenant: str, *, statistics: Literal["batch", "frozen"] = "batch") -> nn.Module:
        """Return the network of a stream as a plain module that no longer adapts."""
        with self.lock:
            self._enter(tenant, new=False)
            return self.model.export(statistics=statistics)

    def saved(self, tenant: str) -> bytes:
        """Return the state of a stream as the file that `AdaptedModel.load` reads."""
        with self.lock:
            entry = self._enter(tenant, new=False)
            return self.model.saved(note=self._note(entry))

    def status(self, tenant: str) -> Tenant:
        """Return the counts of a stream as they are now; an unknown one is refused."""
        with self.lock:
            self._settle()
            return self._known(tenant)

    def names(self) -> list[str]:
        """Return the names of all streams, in alphabetical order."""
        with self.lock:
            return sorted(self._tenants)

    def checkpoint(self) -> None:
        """Write every state that the disk does not have."""
        with self.lock:
            self._settle()
            for entry in list(self._tenants.values()):
                if entry.dirty and (entry is self._inside or entry.resident is not None):
                    self._swap(entry)
                    self._write(entry)

    def stall(self, reason: str) -> None:
        """Adapt to nothing until the disk takes a state again."""
        with self.lock:
            self.stalled, self._retry_at = reason, time.monotonic() + RETRY_SECONDS

    def close(self) -> None:
        """Write every state, and give the folder to others."""
        with self.lock:
            self.checkpoint()
            if self.log is not None:
                self.log.close()
                self.log = None
            self._owned.close()

    def nbytes(self, tenant: str) -> int:
        """Return the memory that the state of a stream takes beside the network; 0 if it is on disk."""
        with self.lock:
            self._settle()
            entry = self._known(tenant)
            if entry is self._inside:
                return Resident.of(self.model.snapshot()).nbytes
            return 0 if entry.resident is None else entry.resident.nbytes

    # One state in, one out --------------------------------------------------------------------------------

    def _enter(self, name: str, *, new: bool = True) -> Tenant:
        """Put the state of a stream into the model."""
        self._settle()
        check_tenant(name)
        if new and name not in self._tenants:
            if len(self._tenants) >= self.limit:
                raise RefusedError(429, f"there are {self.limit} tenants already, and no more are taken")
            self._tenants[name] = Tenant(name, digest=self._fresh_digest, resident=self._fresh)
        entry = self._known(name)
        self._swap(entry)
        self._tenants.move_to_end(name)
        self._evict()
        return entry

    def _known(self, name: str) -> Tenant:
        entry = self._tenants.get(name)
        if entry is None:
            raise RefusedError(404, "no tenant has this name; the first prediction creates it")
        return entry

    def _settle(self) -> None:
        if self._pending is not None:
            self._pending.finish()

    def _swap(self, entry: Tenant) -> None:
        if self._inside is entry:
            return
        if self._inside is not None:
            self._inside.resident = Resident.of(self.model.snapshot())
            self._inside = None
        if entry.resident is not None:
            self.model.return_to(entry.resident.snapshot())
        else:
            self._read(entry)
        entry.resident, self._inside = None, entry

    def _evict(self) -> None:
        """Leave the states used longest ago to the disk."""
        current = self._inside
        if self.folder is None or current is None:
            return
        resident = [entry for entry in self._tenants.values() if entry.resident is not None]
        for entry in resident[: max(0, len(resident) + 1 - self.active)]:
            if entry.dirty:
                self._swap(entry)
                self._write(entry)
                self._swap(current)
            if not entry.dirty:
                entry.resident = None

    def _set_frozen(self, tenant: str, frozen: bool) -> Decision:
        with self.lock:
            entry = self._enter(tenant, new=False)
            entry.frozen, entry.saved_at = frozen, -1
            self._write(entry)
            return self._done(entry, "freeze" if frozen else "resume", entry.digest)

    def _done(self, entry: Tenant, kind: str, before: str, reason: str = "asked for") -> Decision:
        return Decision(
            time=time.time(),
            tenant=entry.name,
            kind=kind,
            batch=entry.batches,
            before=before,
            after=entry.digest,
            committed=before != entry.digest,
            reason=reason,
        )

    @property
    def _served(self) -> str:
        method = self.model.method
        if not isinstance(method, Guard):
            return "adapted"
        return "source and anchor" if method.inner is None else method.prediction

    # On disk ----------------------------------------------------------------------------------------------

    def _open(self, folder: Path, head: Path | None) -> None:
        """Own the folder, check that its states are of this model, list them, and open the log."""
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._owned.enter_context(held(folder))
        except OSError as error:
            raise OSError(f"the state folder {folder} cannot be used ({error.strerror}); choose another") from error
        try:
            sweep(folder)
            divided(folder, 0, self.model)  # replicas may have had it before
            sign(folder, self.model)
            for one in (folder, *folder.iterdir()):
                private(one)
            for path in sorted(folder.glob("*.safetensors")):
                self._tenants[path.stem] = entry = Tenant(path.stem)
                with suppress(SavedStateError, KeyError, TypeError, ValueError, OSError):  # reported when it is used
                    self._count(entry, read_state(path)[1]["note"])
            self.log = AuditLog(folder / LOG_NAME, head=head)
        except BaseException:
            self._owned.close()
            raise

    def _path(self, entry: Tenant) -> Path:
        assert self.folder is not None
        return self.folder / f"{entry.name}.safetensors"

    def _note(self, entry: Tenant) -> dict[str, Any]:
        return {
            "tenant": entry.name,
            "batches": entry.batches,
            "samples": entry.samples,
            "frozen": entry.frozen,
            "digest": entry.digest,
            "runs": [list(run) for run in entry.runs],
            "ids": self._ids(),
            "logged": None if self.log is None else [self.log.records, self.log.head],
        }

    def _ids(self) -> int:
        """Return how many samples of the stream in the model have ids."""
        return self.model.audit.served if isinstance(self.model, GuardedModel) else 0

    def _count(self, entry: Tenant, note: Mapping[str, Any]) -> None:
        entry.batches, entry.samples = int(note["batches"]), int(note["samples"])
        entry.frozen, entry.digest, entry.saved_at = bool(note["frozen"]), str(note["digest"]), entry.batches
        entry.runs = tuple((str(tag), int(first)) for tag, first in note.get("runs", ()))
        entry.saved_ids = int(note.get("ids", 0))

    def _read(self, entry: Tenant) -> None:
        """Load a state into the model; a damaged file is kept aside, and the stream starts from the source.

        Damage is content that fails its check, or a file that is gone. What hinders reading it leaves it as it is.
        """
        path = self._path(entry)
        try:
            note = self.model.load(path)
            self._count(entry, note)
        except OSError as error:
            if not isinstance(error, FileNotFoundError):
                LOG.error("the state of tenant %s cannot be read now: %s", entry.name, error)
                reason = f"the state of this tenant cannot be read now ({error.strerror}); try again later"
                raise RefusedError(503, reason) from error
            self._set_aside(entry, error)
        except (SavedStateError, KeyError, TypeError, ValueError) as error:
            self._set_aside(entry, error)
        else:
            if note.get("logged") is not None and isinstance(self.model, GuardedModel):
                self._replay_labels(entry, note["logged"])

    def _set_aside(self, entry: Tenant, error: Exception) -> None:
        path = self._path(entry)
        LOG.error("the state of tenant %s cannot be used and is set aside: %s", entry.name, error)
        with suppress(OSError):  # it may be gone, or the folder take no changes
            path.rename(path.with_suffix(".damaged"))
        before = entry.digest
        self.model.return_to(self._fresh.snapshot())
        entry.digest, entry.saved_at, entry.runs, entry.tagged = self._fresh_digest, -1, (), False
        entry.saved_ids = 0
        self._listener(self._done(entry, "damaged", before, "its file was damaged: it starts from the source"))

    def _checkpoint(self, entry: Tenant) -> None:
        if entry.batches - max(entry.saved_at, 0) >= self.checkpoint_every or entry.saved_at < 0:
            self._write(entry)

    def _write(self, entry: Tenant) -> None:
        """Write the state that is in the model; if the disk does not take it, nothing is adapted until it does."""
        if self.folder is None or (self.stalled is not None and time.monotonic() < self._retry_at):
            return
        try:
            self.model.save(self._path(entry), note=self._note(entry))
            private(self._path(entry))
        except OSError as error:
            self.stalled = f"the disk takes no states ({error.strerror or error}); nothing is adapted until it does"
            self._retry_at = time.monotonic() + RETRY_SECONDS
            LOG.error("%s", self.stalled)
            return
        entry.saved_at, entry.labelled, self.stalled = entry.batches, False, None
        entry.saved_ids = self._ids()

    def _stalled(self) -> str | None:
        if self.stalled is not None and time.monotonic() >= self._retry_at and self._inside is not None:
            self._write(self._inside)
        return self.stalled


def _issued(runs: Sequence[tuple[str, int]], tag: str, sample_id: int) -> bool:
    """Return whether an id with this tag belongs to a prediction that the state knows.

    >>> runs = [("a", 0), ("b", 32)]  # restored after 32 samples; further ones of the first run are lost
    >>> _issued(runs, "a", 31), _issued(runs, "a", 32), _issued(runs, "b", 32), _issued(runs, "c", 1)
    (True, False, True, False)
    """
    ends = [first for _, first in runs[1:]] + [sample_id + 1]
    return any(name == tag and first <= sample_id < end for (name, first), end in zip(runs, ends, strict=True))
