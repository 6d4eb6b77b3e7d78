"""Decision: what was done with one batch of one tenant, and why; the record of the audit log."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from holdfast.model.events import event_names
from holdfast.records import Estimate, Refused, Step, Undone, Veto

# What the log calls the events of a step, in this order.


@dataclass(frozen=True)
class Decision:
    """One line of the audit log: a batch, or what someone did to a tenant (`kind`)."""

    time: float  # seconds since 1970
    tenant: str
    kind: str  # batch, reset, freeze, resume, feedback, damaged, missing, started, stopped
    batch: int  # batches of this tenant before
    before: str  # digest of the state
    after: str
    committed: bool = False  # whether the state changed and stays so
    reason: str = ""  # why not, or what else happened
    events: tuple[str, ...] = ()  # of veto, gate, alarm, reset, skipped
    samples: int = 0
    classes: tuple[int, ...] = ()  # what was predicted
    chosen: str = ""  # which prediction was served
    estimate: float | None = None
    unknown: str = ""  # why there is no estimate
    low: float | None = None
    high: float | None = None
    gain: float | None = None  # estimated, over the source
    prediction_seconds: float | None = None
    finish_seconds: float | None = None
    run: str = ""  # tag of the ids since the last restore
    first: int | None = None  # id of the first sample of a batch; the others count up from it
    inputs: str = ""  # where the inputs of the batch are stored
    sample: int | None = None  # id of the sample that a label belongs to
    label: int | None = None
    correct: bool | None = None  # whether the predicted class is right, instead of a label

    def to_dict(self) -> dict[str, Any]:
        """Return all fields as JSON can hold them."""
        return dict(vars(self))


def decide(
    step: Step,
    *,
    time: float,
    tenant: str,
    batch: int,
    digests: tuple[str, str],
    frozen: str | None,
    served: str,
    seconds: tuple[float, float],
    run: str = "",
    first: int | None = None,
) -> Decision:
    """Return the decision of a step; `frozen` says why nothing was adapted."""
    kept = [event for event in step.events if frozen is None or not isinstance(event, Refused)]
    names = event_names(kept)
    reasons = [frozen, step.recovered, step.skipped]
    reasons += [event.reason for kind in (Undone, Veto) for event in step.events if isinstance(event, kind)]
    estimate = _estimate(step) or Estimate(math.nan)
    return Decision(
        time=time,
        tenant=tenant,
        kind="batch",
        batch=batch,
        before=digests[0],
        after=digests[1],
        committed=digests[0] != digests[1] and not {"reset", "gate"} & {*names},
        reason="; ".join(reason for reason in reasons if reason),
        events=names,
        samples=len(step.logits),
        classes=tuple(step.logits.argmax(1).tolist()),
        chosen="source and anchor" if "veto" in names else served,
        estimate=_finite(estimate.value),
        unknown=estimate.unknown or "",
        low=_finite(estimate.low),
        high=_finite(estimate.high),
        gain=_finite(estimate.gain),
        prediction_seconds=round(seconds[0], 6),
        finish_seconds=round(seconds[1], 6),
        run=run,
        first=first,
    )


def _estimate(step: Step) -> Estimate | None:
    """Return the guard's estimate, or the first other one."""
    return step.estimates.get("guard") or next(iter(step.estimates.values()), None)


def _finite(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else round(value, 6)
