"""The online protocol: one pass, every batch answered first, then learnt from and never seen again."""

from __future__ import annotations

import time
from typing import Any

from holdfast.benchmark.attempt import Attempt
from holdfast.benchmark.collapse import ScriptedCollapse

__all__ = ["online"]


def online(attempt: Attempt) -> dict[str, Any]:
    """Go through the stream from where the attempt stands; return nothing beyond what the rows say."""
    model, job = attempt.model, attempt.job
    script = ScriptedCollapse(**job.stream["collapse"]) if "collapse" in job.stream else None
    for batch in attempt.stream.starting_at(attempt.place.samples, stop=attempt.total, batch_size=job.batch_size):
        if batch.new_episode:
            model.reset()
        model.enter_domain(batch.domains[0])
        if script:
            model.method.lr_scale = script.scale_at(batch.position)
        began = time.perf_counter()
        step = model.step(batch.inputs)
        attempt.record(batch, step, time.perf_counter() - began)
    return {}
