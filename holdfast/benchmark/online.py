"""The online protocol: one pass; every batch is predicted, then adapted to once."""

from __future__ import annotations

import time
from typing import Any

from holdfast.benchmark.attempt import Attempt
from holdfast.benchmark.feeding import fed

__all__ = ["online"]


def online(attempt: Attempt) -> dict[str, Any]:
    """Run the stream from the attempt's place on; there is nothing to summarise beyond the rows."""
    model, job = attempt.model, attempt.job
    start, stop = attempt.place.samples, attempt.total
    batches = attempt.stream.starting_at(start, stop=stop, batch_size=job.batch_size, stored=True)
    for batch in fed(batches, job.placement):
        if batch.new_episode:
            model.reset()
        model.enter_domain(batch.domains[0])
        if job.collapse:
            model.method.lr_scale = job.collapse.scale_at(batch.position)
        if job.intruders and job.intruders.due(batch.position // job.batch_size):
            model.step(job.intruders.inputs(batch))
        began = time.perf_counter()
        step = model.step(batch.inputs)
        job.placement.wait()
        attempt.record(batch, step, time.perf_counter() - began)
    return {}
