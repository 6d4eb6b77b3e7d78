"""The online protocol: one pass, every batch answered first, then learnt from and never seen again."""

from __future__ import annotations

import time
from typing import Any

from holdfast.benchmark.collapse import ScriptedCollapse
from holdfast.benchmark.session import Session

__all__ = ["online"]


def online(session: Session) -> dict[str, Any]:
    """Go through the stream from where the session stands; return nothing beyond what the rows say."""
    model, job = session.model, session.job
    script = ScriptedCollapse(**job.stream["collapse"]) if "collapse" in job.stream else None
    for batch in session.stream.starting_at(session.place.samples, stop=session.total, batch_size=job.batch_size):
        if batch.new_episode:
            model.reset()
        model.enter_domain(batch.domains[0])
        if script:
            model.method.lr_scale = script.scale_at(batch.position)
        began = time.perf_counter()
        step = model.step(batch.inputs)
        session.record(batch, step, time.perf_counter() - began)
    return {}
