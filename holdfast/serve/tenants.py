"""Tenants: one network in memory, and one small state of adaptation for each stream."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Literal

from torch import Tensor, nn

from holdfast.evidence.checks import class_or_none
from holdfast.methods.guard import Guard
from holdfast.model.adapt import adapt
from holdfast.model.adapted import AdaptedModel, SourceBatch
from holdfast.model.guarded import GuardedModel, guard
from holdfast.model.pending import Pending
from holdfast.records import Step
from holdfast.serve.decision import Decision, decide
from holdfast.serve.disk import Disk, ids_given
from holdfast.serve.limits import RefusedError, check_tenant
from holdfast.serve.resident import Resident
from holdfast.serve.tenant import Tenant


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
        self.tag = tag  # of the ids: those of a state that was lost in a crash belong to no sample
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
            alone = "blend" if method == "auto" else method  # which "auto" serves behind the guard too
            self.model = adapt(model, alone, source=source, holdout=holdout, **{**(options or {}), **building})
        self.active, self.limit, self.checkpoint_every = active, limit, checkpoint_every
        self.lock = threading.RLock()
        self.disk = Disk(self.model, None if folder is None else Path(folder), head=head)
        self._listener: Callable[[Decision], None] = self.record
        self._pending: Serving | None = None
        self._inside: Tenant | None = None  # whose state is in the model
        self._fresh = Resident.of(self.model.snapshot())
        self._fresh_digest = self.model.digest()
        self._tenants = OrderedDict((entry.name, entry) for entry in self.disk.tenants)  # used last at the end

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
            tag, started = entry.tag(ids_given(self.model)), time.perf_counter()
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
        entry.count_batch(len(step.logits), after)
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
        if entry.due(self.checkpoint_every):
            self.disk.write(entry)
        return step, decision

    def tell(self, listener: Callable[[Decision], None]) -> None:
        """Call this with each decision that no caller asked for, such as a damaged state, instead of `record`."""
        self._listener = listener

    def record(self, decision: Decision) -> None:
        """Write a decision to the log; if the disk does not take it, it waits, and nothing is adapted until it does."""
        with self.lock:
            self.disk.record(decision)

    def latest(self, tenant: str, count: int) -> list[Decision]:
        """Return the last decisions of one stream in the log, oldest first."""
        with self.lock:
            return [] if self.disk.log is None else self.disk.log.latest(tenant, count)

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

        What counts in the tenant's bounds outlives a crash. With a `tag` (`Serving.tag`) ids of predictions that a
        crash has lost are refused: other samples have them now.
        """
        if not isinstance(self.model, GuardedModel):
            raise RefusedError(409, "labels are taken by guarded models only; start the service without --no-guard")
        label = class_or_none(label, correct, classes=self.model.method.model.num_classes)
        with self.lock:
            entry = self._enter(tenant, new=False)
            if sample_id >= ids_given(self.model) or (tag is not None and not entry.issued(tag, sample_id)):
                raise RefusedError(404, "no prediction has this id")
            counts = sample_id in self.model.audit.waiting
            reason = "it counts" if counts else "it was not asked for, or came twice"
            fields = {"run": entry.tag_of(sample_id), "sample": sample_id, "label": label, "correct": correct}
            self.disk.record_label(entry, entry.decision("feedback", entry.digest, reason, **fields), counts=counts)
            counts = self.model.feedback(sample_id, label, correct=correct)
            entry.count_label()
            return counts

    def bounds(self, tenant: str) -> dict[str, tuple[float, float]]:
        """Return the bounds of accuracy and gain that labels guarantee; empty without the guard."""
        if not isinstance(self.model, GuardedModel):
            return {}
        with self.lock:
            self._enter(tenant, new=False)
            intervals = {"accuracy": self.model.accuracy(), "gain": self.model.gain()}
        return {name: (interval.low, interval.high) for name, interval in intervals.items()}

    def reset(self, tenant: str) -> Decision:
        """Return a stream to the state at construction; the labels of a guarded model stay."""
        with self.lock:
            entry = self._enter(tenant, new=False)
            before = entry.digest
            self.model.reset()
            entry.change(digest=self.model.digest())
            self.disk.write(entry)
            return entry.decision("reset", before)

    def freeze(self, tenant: str) -> Decision:
        """Predict this stream without adapting, until `resume`."""
        return self._set_frozen(tenant, True)

    def resume(self, tenant: str) -> Decision:
        """Adapt to this stream again."""
        return self._set_frozen(tenant, False)

    def _set_frozen(self, tenant: str, frozen: bool) -> Decision:
        with self.lock:
            entry = self._enter(tenant, new=False)
            entry.change(frozen=frozen)
            self.disk.write(entry)
            return entry.decision("freeze" if frozen else "resume", entry.digest)

    def export(self, tenant: str, *, statistics: Literal["batch", "frozen"] = "batch") -> nn.Module:
        """Return the network of a stream as a plain module that no longer adapts."""
        with self.lock:
            self._enter(tenant, new=False)
            return self.model.export(statistics=statistics)

    def saved(self, tenant: str) -> bytes:
        """Return the state of a stream as the file that `AdaptedModel.load` reads."""
        with self.lock:
            return self.model.saved(note=self.disk.note(self._enter(tenant, new=False)))

    def status(self, tenant: str) -> Tenant:
        """Return the counts of a stream as they are now; an unknown one is refused."""
        with self.lock:
            self._settle()
            return self._known(tenant)

    def names(self) -> list[str]:
        """Return the names of all streams, in alphabetical order."""
        with self.lock:
            return sorted(self._tenants)

    def checkpoint(self, *, last: bool = False) -> None:
        """Write every state that the disk does not have, for the `last` time also on one that has just refused."""
        with self.lock:
            self._settle()
            for entry in list(self._tenants.values()):
                if entry.dirty and (entry is self._inside or entry.resident is not None):
                    self._swap(entry)
                    self.disk.write(entry, last=last)

    def close(self) -> None:
        """Write every state, and give the folder to others."""
        with self.lock:
            self.checkpoint(last=True)
            self.disk.close()

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

    def _stalled(self) -> str | None:
        """Return why nothing is adapted now; the disk is tried again from time to time."""
        if self.disk.stalled is not None and self._inside is not None:
            self.disk.write(self._inside)
        return self.disk.stalled

    def _swap(self, entry: Tenant) -> None:
        if self._inside is entry:
            return
        if self._inside is not None:
            self._inside.keep(Resident.of(self.model.snapshot()))
            self._inside = None
        if entry.resident is not None:
            self.model.return_to(entry.resident.snapshot())
        elif not self.disk.read(entry):
            self._start_again(entry)
        entry.keep(None)
        self._inside = entry

    def _start_again(self, entry: Tenant) -> None:
        """Put the source into the model for a stream whose state is lost, and report that."""
        before = entry.digest
        self.model.return_to(self._fresh.snapshot())
        entry.restart(self._fresh_digest)
        self._listener(entry.decision("damaged", before, "its file was damaged: it starts from the source"))

    def _evict(self) -> None:
        """Leave the states used longest ago to the disk."""
        current = self._inside
        if self.disk.folder is None or current is None:
            return
        resident = [entry for entry in self._tenants.values() if entry.resident is not None]
        for entry in resident[: max(0, len(resident) + 1 - self.active)]:
            if entry.dirty:
                self._swap(entry)
                self.disk.write(entry)
                self._swap(current)
            if not entry.dirty:
                entry.keep(None)

    @property
    def _served(self) -> str:
        method = self.model.method
        if not isinstance(method, Guard):
            return "adapted"
        return "source and anchor" if method.inner is None else method.prediction
