"""The online protocol: one pass; every batch is predicted, then adapted to once."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import torch

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
        inputs = batch.inputs
        if job.intruders and job.intruders.due(batch.position // job.batch_size):
            intruders = job.intruders.inputs(batch, model.get_submodule("_source"))
            if job.intruders.mixed:
                inputs = torch.cat([intruders, inputs])
            else:
                model.step(intruders)
        began = time.perf_counter()
        step = model.step(inputs)
        job.placement.wait()
        seconds = time.perf_counter() - began
        if len(inputs) > len(batch):  # intruders are not scored
            step = replace(step, logits=step.logits[-len(batch) :])
        attempt.record(batch, step, seconds)
    return {}
