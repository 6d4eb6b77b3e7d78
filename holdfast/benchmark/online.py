"""The online protocol: one pass; every batch is predicted, then adapted to once."""

from __future__ import annotations

import time
from typing import Any

from holdfast.benchmark.attempt import Attempt

__all__ = ["online"]


def online(attempt: Attempt) -> dict[str, Any]:
    """Run the stream from the attempt's place on; there is nothing to summarise beyond the rows."""
    model, job = attempt.model, attempt.job
    for batch in attempt.stream.starting_at(attempt.place.samples, stop=attempt.total, batch_size=job.batch_size):
        if batch.new_episode:
            model.reset()
        model.enter_domain(batch.domains[0])
        if job.collapse:
            model.method.lr_scale = job.collapse.scale_at(batch.position)
        if job.intruders and job.intruders.due(batch.position // job.batch_size):
            model.step(job.intruders.inputs(batch))
        began = time.perf_counter()
        step = model.step(batch.inputs)
        attempt.record(batch, step, time.perf_counter() - began)
    return {}
