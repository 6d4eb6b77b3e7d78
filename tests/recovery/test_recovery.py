"""Recoveries that reset at fixed intervals."""

from __future__ import annotations

import pytest
import torch

from holdfast.model.adapt import adapt
from holdfast.models.tiny import tiny_resnet
from holdfast.recovery.periodic import Periodic

BATCHES = torch.rand(7, 8, 3, 16, 16, generator=torch.Generator().manual_seed(0))


def test_periodic_resets_before_the_batch_after_a_period() -> None:
    model = adapt(tiny_resnet(), "tent", recovery="periodic", every_batches=3, lr=0.1)
    fresh = adapt(tiny_resnet(), "batch_norm")
    steps = [model.step(batch) for batch in BATCHES]
    assert [index for index, step in enumerate(steps) if step.recovered] == [3, 6]
    same = [bool(torch.equal(step.logits, fresh(batch))) for step, batch in zip(steps, BATCHES, strict=True)]
    assert same == [True, False, False, True, False, False, True]


def test_episodic_answers_every_batch_from_the_source() -> None:
    model = adapt(tiny_resnet(), "tent", recovery="episodic", lr=0.1)
    fresh = adapt(tiny_resnet(), "batch_norm")
    assert all(torch.equal(model(batch), fresh(batch)) for batch in BATCHES)


def test_reset_takes_the_clock_back_too() -> None:
    model = adapt(tiny_resnet(), "rdumb", every_batches=3)
    for batch in BATCHES[:2]:
        model(batch)
    model.reset()
    assert [bool(model.step(batch).recovered) for batch in BATCHES[:4]] == [False, False, False, True]


def test_a_period_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="every_batches of recovery 'periodic' must be a whole number from 1 to"):
        adapt(tiny_resnet(), "tent", recovery=Periodic(every_batches=0))


def test_restore_puts_single_weights_back() -> None:
    model = adapt(tiny_resnet(), "tent", lr=0.1)
    model(BATCHES[0])
    method = model.method
    source = [weight.clone() for weight in method.source_weights()]
    method.restore(lambda weight, _: torch.arange(len(weight)) % 2 == 0)
    for weight, origin in zip(method.trained, source, strict=True):
        assert torch.equal(weight.detach()[::2], origin[::2])
    assert any(not torch.equal(weight.detach(), origin) for weight, origin in zip(method.trained, source, strict=True))
