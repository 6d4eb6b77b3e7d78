"""The online protocols: one pass; every batch is predicted, then adapted to once, or missed if the stream is timed.

Runs of one stream go through it in lock-step, so that each batch is rendered once for all of them.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

import torch

from holdfast.benchmark.attempt import Attempt
from holdfast.benchmark.clock import missed_batches, passes_of
from holdfast.benchmark.prefetch import Prefetch, fed
from holdfast.machine.stopping import Stopped, was_asked_to_stop
from holdfast.records import NOT_IN_TIME, Batch, Refused


def online(attempts: Sequence[Attempt], prefetch: Prefetch) -> None:
    """Show each batch to every attempt that has not seen it yet; one that fails keeps its failure and stays behind.

    All attempts have the same stream, batch size and placement, and each resumes from its own position.
    """
    job, total = attempts[0].job, attempts[0].total
    start = min(attempt.checkpoint.samples for attempt in attempts)
    spans = prefetch.stream.spans(start, total, job.batch_size)
    count = float("inf") if total is None else (total - start) / job.batch_size
    for batch in fed(prefetch.batches(spans, count), job.placement):
        for attempt in attempts:
            if attempt.failure is None and attempt.recorder.samples == batch.position:
                # Each attempt may change its inputs.
                _take(attempt, batch if len(attempts) == 1 else replace(batch, inputs=batch.inputs.clone()))
        if all(attempt.failure for attempt in attempts):
            return
        if was_asked_to_stop():
            for attempt in attempts:
                if attempt.failure is None:
                    attempt.save()
            raise Stopped


def _take(attempt: Attempt, batch: Batch) -> None:
    """Predict a batch, adapt to it and record it; whatever is raised is the failure of this attempt."""
    model, job = attempt.model, attempt.job
    try:
        if batch.new_episode:
            model.reset()
            attempt.let_pass(0)
        model.enter_domain(batch.domains[0])
        if attempt.checkpoint.busy:
            _serve(attempt, batch)
            return
        if job.collapse:
            model.method.scale_rates(job.collapse.scale_at(batch.position))
        inputs = batch.inputs
        if job.intruders and job.intruders.due(batch.position // job.batch_size):
            intruders = job.intruders.inputs(batch, model.source_network)
            if job.intruders.mixed:
                inputs = torch.cat([intruders, inputs])
            else:
                model.step(intruders)
        began = time.perf_counter()
        step = model.step(inputs)
        job.placement.wait()
        seconds = time.perf_counter() - began
        if job.protocol == "online-timed":
            attempt.let_pass(missed_batches(passes_of(step) if job.cost is None else job.cost, job.speed))
        if len(inputs) > len(batch):  # intruders are not scored
            step = replace(step, logits=step.logits[-len(batch) :])
        attempt.record(batch, step, seconds)
    except Exception as error:
        attempt.fail(error)


def _serve(attempt: Attempt, batch: Batch) -> None:
    """Predict a batch by the latest state while an earlier one is still being adapted to."""
    attempt.let_pass(attempt.checkpoint.busy - 1)
    began = time.perf_counter()
    step = attempt.model.predict(batch.inputs)
    attempt.job.placement.wait()
    attempt.record(batch, replace(step, events=(*step.events, Refused(NOT_IN_TIME))), time.perf_counter() - began)
