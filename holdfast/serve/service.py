"""The service behind the addresses: tenants, micro-batches, audit log, metrics and recent history."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from holdfast.machine.devices import MemoryFormat, Placement
from holdfast.models.preprocessing import preprocessing_of
from holdfast.serve.batching import Request, Worker
from holdfast.serve.bodies import Decoder
from holdfast.serve.decision import Decision
from holdfast.serve.decoding import DecodingPool
from holdfast.serve.limits import Limits, Rate, RefusedError, check_tenant
from holdfast.serve.metrics import Metrics
from holdfast.serve.stored_inputs import stored
from holdfast.serve.tenants import Tenants

if TYPE_CHECKING:
    from holdfast.connect.otel import Telemetry

LOG = logging.getLogger(__name__)
LOOKED_AT = 32  # of the first samples, to see if they are scaled as in training
REMEMBERED = 600  # decisions of each tenant for the page
NO_REFERENCE = "no source samples are known, so it predicts as the source does; start it with --card or --holdout"
KILLED = "the service before was killed: decisions that it did not log are missing"
TRUSTED = "the head of the log was not noted: its {} records before this one are trusted"
REPLY_SECONDS = 0.005  # at most, until an update begins
NOT_FINITE = "the network returns values that are not finite for these inputs; scale them as in training"


@dataclass(frozen=True)
class Answer:
    """The predictions for one request, in the order of its samples."""

    tenant: str
    batch: int  # of this tenant, from 0
    position: int  # of the first sample in that batch
    ids: list[str]  # for feedback
    classes: list[int]
    confidences: list[float]
    wants_label: list[bool]
    names: list[str] | None  # of the classes, where they are known
    predicts: str  # before or after the update on the same batch
    logits: Tensor  # (samples, classes)

    def to_dict(self, *, logits: bool = False) -> dict[str, Any]:
        """Return the fields as JSON can hold them, with the logits if they are asked for."""
        content = {name: value for name, value in vars(self).items() if name != "logits" and value is not None}
        content["place"] = self.position  # its name until 0.4
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
        name: str = "model",
        names: Sequence[str] | None = None,
        given: Mapping[str, Any] | None = None,
        memory_format: MemoryFormat = "contiguous",
        telemetry: Telemetry | None = None,
    ) -> None:
        self.name = name  # of the model
        self.names = None if names is None else tuple(names)  # of the classes
        self.tenants, self.limits = tenants, limits or Limits()
        network = tenants.model.method.model
        decoder = Decoder(
            network.input_spec, self.limits, preprocessing=preprocessing_of(network), dtype=network.input_dtype
        )
        self.decoding = DecodingPool(decoder, waiting=self.limits.decoding)
        if store_inputs and tenants.disk.folder is None:
            raise ValueError("inputs are stored in the state folder; pass --state with --store-inputs")
        self.metrics = Metrics()
        tenants.tell(self.record)
        self.rate = Rate(self.limits.requests_per_second)
        self.worker = Worker(self._serve, batch=batch, wait=wait, queued=self.limits.queued)
        self.started = time.time()
        self.telemetry = telemetry
        self.placement = Placement(memory_format=memory_format)
        self._inputs = tenants.disk.folder if store_inputs else None
        self._check: Callable[[Tensor], str | None] | None = None
        self._first: list[Tensor] = []  # inputs for it
        self._history: dict[str, deque[Decision]] = {}
        self.note = None if tenants.model.method.referred else NO_REFERENCE  # what has to be known of the set-up
        if self.note is not None:
            LOG.warning(self.note)
        recipe = tenants.model.recipe
        self.described: dict[str, Any] = {  # once: a step may be changing the model when someone asks
            "name": name,
            "recipe": recipe["name"],
            "method": recipe["options"].get("base") or recipe["method"],
            "guarded": recipe["method"] == "guard",
            "predicts": tenants.model.method.predicts,
            "weights": tenants.model.weights,
            "classes": network.num_classes,
            "names": self.names,
            "given": dict(given or {}),
            "input": asdict(network.input_spec),
            "memory_format": memory_format,
            "note": self.note,
        }

    # Predict ----------------------------------------------------------------------------------------------

    def admit(self, tenant: str) -> None:
        """Refuse a request by its tenant's name or rate, before its body is read."""
        check_tenant(tenant)
        if not self.rate.take(tenant):
            raise RefusedError(429, "this tenant sends too many requests; slow down")

    def submit(
        self, tenant: str, inputs: Tensor, answer: Callable[[object], None], sent: threading.Event | None = None
    ) -> None:
        """Queue inputs; `answer` is called once, with an `Answer` or an exception, from another thread.

        The update begins when `sent` is set, so that the reply does not wait for the interpreter, or soon after.
        """
        if self.telemetry is not None:
            answer = self.telemetry.request(tenant, len(inputs), answer)
        self.worker.put(Request(tenant, inputs, answer, sent))

    async def predicted(self, tenant: str, inputs: Tensor) -> Answer:
        """Return the answer to inputs of a tenant, or raise what it was refused with."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[object] = loop.create_future()
        sent = threading.Event()

        def settle(result: object) -> None:
            if not future.done():  # the client may have gone
                future.set_result(result)
            loop.call_soon(sent.set)  # after the reply, which is the next in the queue and never waits

        def answer(result: object) -> None:
            loop.call_soon_threadsafe(settle, result)

        self.submit(tenant, inputs, answer, sent)
        result = await future
        if isinstance(result, Exception):
            raise result
        assert isinstance(result, Answer)
        return result

    def _serve(self, tenant: str, requests: Sequence[Request]) -> None:
        with self.tenants.lock:
            self._serve_batch(tenant, requests)

    def _serve_batch(self, tenant: str, requests: Sequence[Request]) -> None:
        inputs = requests[0].inputs if len(requests) == 1 else torch.cat([request.inputs for request in requests])
        serving = self.tenants.begin(tenant, self.placement.lay_out(inputs))
        confidences, classes = serving.logits.float().softmax(1).max(1)
        finite = torch.isfinite(serving.logits).all(1)
        ids = [f"{tenant}:{sample}-{serving.tag}" for sample in serving.ids] or [f"{tenant}:-" for _ in inputs]
        wanted = list(serving.wants_label) or [False] * len(inputs)
        start = 0
        for request in requests:
            part = slice(start, start + len(request.inputs))
            answer = Answer(
                tenant=tenant,
                batch=serving.batch,
                position=start,
                ids=ids[part],
                classes=classes[part].tolist(),
                confidences=[round(value, 6) for value in confidences[part].tolist()],
                wants_label=wanted[part],
                names=None if self.names is None else [self.names[one] for one in classes[part].tolist()],
                predicts=serving.predicts,
                logits=serving.logits[part],
            )
            request.answer(answer if finite[part].all() else RefusedError(422, NOT_FINITE))
            self.metrics.latency.labels(tenant).observe(time.perf_counter() - request.arrived)
            start += len(request.inputs)
        if requests[-1].sent is not None:
            requests[-1].sent.wait(REPLY_SECONDS)
        serving.finish()
        self.record(replace(serving.decision, inputs=self._store(tenant, serving.batch, inputs)))
        self._look_at(inputs)

    def check_first(self, check: Callable[[Tensor], str | None]) -> None:
        """Call this once with the first inputs; what it returns is noted, e.g. that they are not scaled."""
        self._check = check

    def _look_at(self, inputs: Tensor) -> None:
        if self._check is None:
            return
        self._first.append(inputs)
        if sum(len(one) for one in self._first) < LOOKED_AT:
            return
        check, first, self._check, self._first = self._check, torch.cat(self._first), None, []
        problem = check(first)
        if problem is not None:
            LOG.warning(problem)
            self.note = problem if self.note is None else f"{self.note}; {problem}"
            self.described["note"] = self.note

    def _store(self, tenant: str, batch: int, inputs: Tensor) -> str:
        if self._inputs is None or self.tenants.disk.stalled is not None:  # what room there is belongs to the log
            return ""
        try:
            return stored(self._inputs, tenant, batch, inputs)
        except OSError as error:
            LOG.error("the inputs of a batch could not be stored: %s", error)
            return ""

    # Everything else --------------------------------------------------------------------------------------

    def feedback(self, prediction_id: str, label: int | None = None, *, correct: bool | None = None) -> bool:
        """Take the true class of a prediction, or whether it is `correct`; return whether that counts."""
        tenant, colon, named = prediction_id.rpartition(":")
        sample, _, tag = named.partition("-")
        if not colon or not sample.isdecimal() or len(sample) > 18:
            raise RefusedError(422, "no prediction has this id; send the id of a prediction of a guarded model")
        try:
            return self.tenants.feedback(tenant, int(sample), label, correct=correct, tag=tag)
        except RefusedError:
            raise
        except ValueError as error:  # the label is no class
            raise RefusedError(422, str(error)) from error

    def act(self, action: str, tenant: str) -> Decision:
        """Reset, freeze or resume a tenant."""
        actions = {"reset": self.tenants.reset, "freeze": self.tenants.freeze, "resume": self.tenants.resume}
        with self.tenants.lock:
            decision = actions[action](tenant)
            self.record(decision)
        return decision

    def export(self, tenant: str) -> bytes:
        """Return the state of a tenant as a file for `AdaptedModel.load`."""
        return self.tenants.saved(tenant)

    def record(self, decision: Decision) -> None:
        """Remember, count and log a decision."""
        with self.tenants.lock:
            self._recent(decision.tenant).append(decision)
            self.metrics.count(decision)
            self.tenants.record(decision)
        if self.telemetry is not None:
            self.telemetry.record(decision)

    def _recent(self, tenant: str) -> deque[Decision]:
        if tenant not in self._history:
            self._history.setdefault(tenant, deque(self.tenants.latest(tenant, REMEMBERED), maxlen=REMEMBERED))
        return self._history[tenant]

    def history(self, tenant: str, since: float = 0.0) -> list[dict[str, Any]]:
        """Return the last decisions of a tenant after a time."""
        self.tenants.status(tenant)
        recent = list(self._recent(tenant))
        known = [index for index, one in enumerate(recent) if one.time == since]  # by index: a clock may be set back
        later = recent[known[-1] + 1 :] if known else [one for one in recent if one.time > since]
        return [one.to_dict() for one in later]

    def status(self, tenant: str | None = None) -> dict[str, Any]:
        """Return the state of the service, and of one tenant or all."""
        names = self.tenants.names() if tenant is None else [tenant]
        log = self.tenants.disk.log
        return {
            "model": self.described,
            "uptime_seconds": round(time.time() - self.started, 1),
            "ready": self.ready,
            "learning_stopped": self.tenants.disk.stalled,
            "queue": self.worker.waiting,
            "batch": self.worker.batch,
            "wait_ms": 1000 * self.worker.wait,
            "audit": None if log is None else {"head": log.head, "problem": self.tenants.disk.unrecorded},
            "tenants": {name: self._status_of(name) for name in names},
            **({} if tenant is None else {"bounds": self.tenants.bounds(tenant)}),
        }

    def newest(self, tenant: str) -> Decision | None:
        """Return the decision on the last batch of a tenant, if there is one."""
        if tenant not in self._history:  # an unknown one is not remembered
            return None
        return next((one for one in reversed(list(self._history[tenant])) if one.kind == "batch"), None)

    def _status_of(self, name: str) -> dict[str, Any]:
        entry = self.tenants.status(name)
        self._recent(name)
        newest = self.newest(name)
        shown = {field.name for field in fields(Decision)} & {"estimate", "low", "high", "gain", "time"}
        estimated = {} if newest is None else {key: value for key, value in newest.to_dict().items() if key in shown}
        return {
            "batches": entry.batches,
            "samples": entry.samples,
            "frozen": entry.frozen,
            "digest": entry.digest,
            "saved_batches": max(entry.saved_at, 0),
            **estimated,
        }

    @property
    def ready(self) -> bool:
        """Whether predictions are served."""
        return self.worker.alive

    def start(self) -> None:
        """Start to serve."""
        self.worker.start()
        log = self.tenants.disk.log
        killed = KILLED if log is not None and log.ended != "stopped" else None
        trusted = TRUSTED.format(log.trusted) if log is not None and log.trusted else None
        said = (f"{len(self.tenants.names())} tenants on disk", killed, trusted, self.note)
        self.record(self._event("started", "; ".join(one for one in said if one is not None)))

    def stop(self) -> None:
        """Serve what waits, then bring every state and the log to the disk."""
        if self.worker.alive:
            self.worker.stop()
        self.decoding.close()
        self.tenants.checkpoint(last=True)
        stalled = self.tenants.disk.stalled
        self.record(self._event("stopped", "every state is on disk" if stalled is None else stalled))
        self.tenants.close()
        if self.telemetry is not None:
            self.telemetry.close()

    def _event(self, kind: str, reason: str) -> Decision:
        return Decision(time=time.time(), tenant="", kind=kind, batch=0, before="", after="", reason=reason)

    def gauge(self) -> bytes:
        """Return all metrics as text."""
        self.metrics.queue.set(self.worker.waiting)
        self.metrics.tenants.set(len(self.tenants.names()))
        self.metrics.stalled.set(self.tenants.disk.stalled is not None)
        return self.metrics.text()
