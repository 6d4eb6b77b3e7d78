"""The service behind the addresses: tenants, micro-batches, audit log, metrics and recent history."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from holdfast.models.preprocessing import preprocessing_of
from holdfast.serve.audit import AuditLog
from holdfast.serve.batching import Request, Worker
from holdfast.serve.bodies import Decoder
from holdfast.serve.decision import Decision
from holdfast.serve.limits import Limits, Rate, RefusedError, check_tenant
from holdfast.serve.metrics import Metrics
from holdfast.serve.stored_inputs import stored
from holdfast.serve.tenants import Tenants

if TYPE_CHECKING:
    from holdfast.connect.otel import Telemetry

__all__ = ["Answer", "Service"]

LOG = logging.getLogger(__name__)
REMEMBERED = 600  # decisions of each tenant for the page
NO_REFERENCE = "no source samples are known, so it predicts as the source does; start it with --card or --holdout"


@dataclass(frozen=True)
class Answer:
    """The predictions for one request, in the order of its samples."""

    tenant: str
    batch: int  # of this tenant, from 0
    place: int  # of the first sample in that batch
    ids: list[str]  # for feedback
    classes: list[int]
    confidences: list[float]
    wants_label: list[bool]
    predicts: str  # before or after the update on the same batch
    logits: Tensor  # (samples, classes)

    def to_dict(self, *, logits: bool = False) -> dict[str, Any]:
        """Return the fields as JSON can hold them, with the logits if they are asked for."""
        content = {name: value for name, value in vars(self).items() if name != "logits"}
        return {**content, "logits": self.logits.tolist()} if logits else content


class Service:
    """Predicts batches of tenants, adapts to them, and writes down what it did."""

    def __init__(
        self,
        tenants: Tenants,
        *,
        limits: Limits | None = None,
        batch: int = 64,
        wait: float = 0.01,
        store_inputs: bool = False,
        telemetry: Telemetry | None = None,
    ) -> None:
        self.tenants, self.limits = tenants, limits or Limits()
        network = tenants.model.method.model
        self.decoder = Decoder(
            network.input_spec, self.limits, preprocessing=preprocessing_of(network), dtype=network.input_dtype
        )
        if store_inputs and tenants.folder is None:
            raise ValueError("inputs are stored in the state folder; pass --state with --store-inputs")
        self.audit = None if tenants.folder is None else AuditLog(tenants.folder / "audit.db")
        self.metrics = Metrics()
        tenants.tell(self.record)
        self.rate = Rate(self.limits.requests_per_second)
        self.worker = Worker(self._serve, batch=batch, wait=wait, queued=self.limits.queued)
        self.started = time.time()
        self.telemetry = telemetry
        self.unrecorded: str | None = None  # why the audit log is not written
        self._inputs = tenants.folder if store_inputs else None
        self._history: dict[str, deque[Decision]] = {}
        self._turn = threading.Lock()  # of a batch or an action with its record, so that the log has their order
        self.note = None if tenants.model.method.referred else NO_REFERENCE  # what has to be known of the set-up
        if self.note is not None:
            LOG.warning(self.note)

    # Predict ----------------------------------------------------------------------------------------------

    def submit(self, tenant: str, inputs: Tensor, answer: Callable[[object], None]) -> None:
        """Queue inputs; `answer` is called once, with an `Answer` or an exception, from another thread."""
        check_tenant(tenant)
        if not self.rate.take(tenant):
            raise RefusedError(429, "this tenant sends too many requests; slow down")
        if self.telemetry is not None:
            answer = self.telemetry.request(tenant, len(inputs), answer)
        self.worker.put(Request(tenant, inputs, answer))

    def _serve(self, tenant: str, requests: Sequence[Request]) -> None:
        with self._turn:
            self._serve_batch(tenant, requests)

    def _serve_batch(self, tenant: str, requests: Sequence[Request]) -> None:
        inputs = requests[0].inputs if len(requests) == 1 else torch.cat([request.inputs for request in requests])
        serving = self.tenants.begin(tenant, inputs)
        confidences, classes = serving.logits.float().softmax(1).max(1)
        ids = [f"{tenant}:{place}-{serving.tag}" for place in serving.ids] or [f"{tenant}:-" for _ in inputs]
        wanted = list(serving.wants_label) or [False] * len(inputs)
        start = 0
        for request in requests:
            part = slice(start, start + len(request.inputs))
            answer = Answer(
                tenant=tenant,
                batch=serving.batch,
                place=start,
                ids=ids[part],
                classes=classes[part].tolist(),
                confidences=[round(value, 6) for value in confidences[part].tolist()],
                wants_label=wanted[part],
                predicts=serving.predicts,
                logits=serving.logits[part],
            )
            self.metrics.latency.labels(tenant).observe(time.perf_counter() - request.arrived)
            request.answer(answer)
            start += len(request.inputs)
        serving.finish()
        self.record(replace(serving.decision, inputs=self._store(tenant, serving.batch, inputs)))

    def _store(self, tenant: str, batch: int, inputs: Tensor) -> str:
        if self._inputs is None:
            return ""
        try:
            return stored(self._inputs, tenant, batch, inputs)
        except OSError as error:
            LOG.error("the inputs of a batch could not be stored: %s", error)
            return ""

    # Everything else --------------------------------------------------------------------------------------

    def feedback(self, prediction_id: str, label: int | None) -> bool:
        """Take the true class of a prediction, or None if it cannot be had; return whether it counts."""
        tenant, colon, named = prediction_id.rpartition(":")
        place, _, tag = named.partition("-")
        if not colon or not place.isdecimal() or len(place) > 18:
            raise RefusedError(422, "no prediction has this id; send the id of a prediction of a guarded model")
        classes = self.tenants.model.method.model.num_classes
        if label is not None and not 0 <= label < classes:
            raise RefusedError(422, f"a label is a class from 0 to {classes - 1}, or null")
        try:
            counts = self.tenants.feedback(tenant, int(place), label, tag=tag)
        except RefusedError:
            raise
        except ValueError as error:
            raise RefusedError(404, "no prediction has this id") from error
        entry = self.tenants.status(tenant)
        self.record(
            Decision(
                time=time.time(),
                tenant=tenant,
                kind="feedback",
                batch=entry.batches,
                before=entry.digest,
                after=entry.digest,
                reason="it counts" if counts else "it was not asked for, or came twice",
                run=tag,
                sample=int(place),
                label=label,
            )
        )
        return counts

    def act(self, action: str, tenant: str) -> Decision:
        """Reset, freeze or resume a tenant."""
        actions = {"reset": self.tenants.reset, "freeze": self.tenants.freeze, "resume": self.tenants.resume}
        with self._turn:
            decision = actions[action](tenant)
            self.record(decision)
        return decision

    def export(self, tenant: str) -> bytes:
        """Return the state of a tenant as a file for `AdaptedModel.load`."""
        return self.tenants.saved(tenant)

    def record(self, decision: Decision) -> None:
        """Write a decision to the log; if the disk does not take it, nothing is adapted until it does."""
        if decision.kind != "feedback":
            self._recent(decision.tenant).append(decision)
        self.metrics.count(decision)
        if self.telemetry is not None:
            self.telemetry.record(decision)
        if self.audit is None:
            return
        try:
            self.audit.append(decision)
            self.unrecorded = None
        except OSError as error:
            self.unrecorded = str(error)
            self.tenants.stall(self.unrecorded)

    def _recent(self, tenant: str) -> deque[Decision]:
        if tenant not in self._history:
            earlier = [] if self.audit is None else self.audit.latest(tenant, REMEMBERED)
            self._history.setdefault(tenant, deque(earlier, maxlen=REMEMBERED))
        return self._history[tenant]

    def history(self, tenant: str, since: float = 0.0) -> list[dict[str, Any]]:
        """Return the last decisions of a tenant after a time."""
        self.tenants.status(tenant)
        found = list(self._recent(tenant))
        known = [place for place, one in enumerate(found) if one.time == since]  # by place: a clock may be set back
        later = found[known[-1] + 1 :] if known else [one for one in found if one.time > since]
        return [one.to_dict() for one in later]

    def status(self, tenant: str | None = None) -> dict[str, Any]:
        """Return the state of the service, and of one tenant or all."""
        model = self.tenants.model
        names = self.tenants.names() if tenant is None else [tenant]
        return {
            "model": {
                "recipe": model.recipe["name"],
                "method": model.recipe["options"].get("base") or model.recipe["method"],
                "guarded": model.recipe["method"] == "guard",
                "predicts": model.method.predicts,
                "weights": model.weights,
                "classes": model.method.model.num_classes,
                "input": asdict(model.method.model.input_spec),
                "note": self.note,
            },
            "uptime_seconds": round(time.time() - self.started, 1),
            "ready": self.ready,
            "learning_stopped": self.tenants.stalled,
            "queue": self.worker.waiting,
            "batch": self.worker.batch,
            "wait_ms": 1000 * self.worker.wait,
            "audit": None if self.audit is None else {"head": self.audit.head, "problem": self.unrecorded},
            "tenants": {name: self._status_of(name) for name in names},
            **({} if tenant is None else {"bounds": self.tenants.bounds(tenant)}),
        }

    def _status_of(self, name: str) -> dict[str, Any]:
        entry = self.tenants.status(name)
        newest = next((one for one in reversed(list(self._recent(name))) if one.kind == "batch"), None)
        shown = {field.name for field in fields(Decision)} & {"estimate", "low", "high", "gain", "time"}
        found = {} if newest is None else {key: value for key, value in newest.to_dict().items() if key in shown}
        return {
            "batches": entry.batches,
            "samples": entry.samples,
            "frozen": entry.frozen,
            "digest": entry.digest,
            "saved_batches": max(entry.saved_at, 0),
            **found,
        }

    @property
    def ready(self) -> bool:
        """Whether predictions are served."""
        return self.worker.alive

    def start(self) -> None:
        """Start to serve."""
        self.worker.start()
        known = f"{len(self.tenants.names())} tenants on disk"
        self.record(self._event("started", known if self.note is None else f"{known}; {self.note}"))

    def stop(self) -> None:
        """Serve what waits, then bring every state and the log to the disk."""
        if self.worker.alive:
            self.worker.stop()
        self.tenants.close()
        self.record(self._event("stopped", "every state is on disk"))
        if self.audit is not None:
            self.audit.close()
        if self.telemetry is not None:
            self.telemetry.close()

    def _event(self, kind: str, reason: str) -> Decision:
        return Decision(time=time.time(), tenant="", kind=kind, batch=0, before="", after="", reason=reason)

    def gauge(self) -> bytes:
        """Return all metrics as text."""
        self.metrics.queue.set(self.worker.waiting)
        self.metrics.tenants.set(len(self.tenants.names()))
        self.metrics.stalled.set(self.tenants.stalled is not None)
        return self.metrics.text()
