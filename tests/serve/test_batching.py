"""Micro-batches: a full queue refuses, and a tenant with many requests lets the others go first."""

from __future__ import annotations

import pytest
import torch

from holdfast.serve.batching import Request, Worker
from holdfast.serve.limits import Rate, RefusedError


def put(worker: Worker, tenant: str, samples: int) -> None:
    worker.put(Request(tenant, torch.zeros(samples, 1), lambda _: None))


def test_a_queue_takes_as_many_samples_as_it_holds_and_no_more() -> None:
    worker = Worker(lambda *_: None, queued=4)
    with pytest.raises(RefusedError, match="too many samples wait"):
        put(worker, "north", 5)
    put(worker, "north", 3)
    put(worker, "south", 1)
    assert worker.waiting == 4
    with pytest.raises(RefusedError, match="too many samples wait"):
        put(worker, "north", 1)


def test_after_a_batch_of_one_tenant_it_is_the_turn_of_the_next() -> None:
    served: list[tuple[str, int]] = []
    worker = Worker(
        lambda tenant, requests: served.append((tenant, sum(len(request.inputs) for request in requests))),
        batch=4,
        wait=0.0,
    )
    for tenant, samples in (("north", 3), ("north", 3), ("south", 1), ("north", 1)):
        put(worker, tenant, samples)
    worker.start().stop()
    assert served == [("north", 3), ("south", 1), ("north", 4)]
    assert worker.waiting == 0


def test_a_rate_forgets_the_client_that_has_been_away_for_longest() -> None:
    rate = Rate(1, keys=2, clock=lambda: 0.0)
    assert [rate.take(client) for client in "abcca"] == [True, True, True, False, True]


def test_a_client_that_was_away_has_one_second_of_its_rate_and_no_more() -> None:
    now = [0.0]
    rate = Rate(2, clock=lambda: now[0])
    rate.take("a")
    for later in (3600.0, 7200.0):
        now[0] = later
        assert [rate.take("a") for _ in range(3)] == [True, True, False]
