"""Decision: what was done with one batch of one tenant, and why; the record of the audit log."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from holdfast.model.events import events_of
from holdfast.records import Estimate, Step

__all__ = ["Decision", "decide"]


@dataclass(frozen=True)
class Decision:
    """One line of the audit log: a batch, or what someone did to a tenant (`kind`)."""

    time: float  # seconds since 1970
    tenant: str
    kind: str  # batch, reset, freeze, resume, export, feedback, restored, damaged, stalled, started, stopped
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

    def to_dict(self) -> dict[str, Any]:
        """Return all fields as JSON can hold them."""
        return asdict(self)


def decide(
    step: Step,
    *,
    time: float,
    tenant: str,
    batch: int,
    digests: tuple[str, str],
    gauges: Mapping[str, float],
    frozen: str | None,
    served: str,
    seconds: tuple[float, float],
    run: str = "",
    first: int | None = None,
) -> Decision:
    """Return the decision of a step; `gauges` are the method's numbers before it, `frozen` why nothing was adapted."""
    events = [event for event in events_of(step, gauges) if event != "skipped" or frozen is None]
    reasons = [frozen, step.recovered, step.skipped]
    reasons += ["the update made the network worse and was undone"] if "gate" in events else []
    reasons += ["the source is believed more than the adapted network, which was left out"] if "veto" in events else []
    estimate = _estimate(step) or Estimate(math.nan)
    return Decision(
        time=time,
        tenant=tenant,
        kind="batch",
        batch=batch,
        before=digests[0],
        after=digests[1],
        committed=digests[0] != digests[1] and step.recovered is None and "gate" not in events,
        reason="; ".join(reason for reason in reasons if reason),
        events=tuple(events),
        samples=len(step.logits),
        classes=tuple(step.logits.argmax(1).tolist()),
        chosen="source and anchor" if "veto" in events else served,
        estimate=_finite(estimate.value),
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
