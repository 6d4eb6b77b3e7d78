"""Concentration against its moving average: when layers are reset, and which."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from holdfast.model.adapt import adapt
from holdfast.models.tiny import tiny_resnet
from holdfast.recipes import resolve
from holdfast.records import Refused, Step
from holdfast.recovery.adaptive import Adaptive

LABELS = torch.arange(64) % 10


class Network:
    """Ten parameters; records which of them were reset."""

    def __init__(self) -> None:
        self.trained = [torch.zeros(2) for _ in range(10)]
        self.resets = 0
        self.restored: list[int] = []

    def reset(self) -> None:
        self.resets += 1

    def restore(self, mask: object) -> None:
        assert callable(mask)
        self.restored = [index for index, weight in enumerate(self.trained) if mask(weight, None).all()]


def predicting(classes: int) -> Step:
    """A batch of confident predictions, spread over a number of ten classes."""
    return Step(20.0 * torch.eye(10)[LABELS % classes], loss=0.5)


def reasons(recovery: Adaptive, steps: list[Step], method: Network | None = None) -> list[bool]:
    return [bool(recovery.recover(method or Network(), step)) for step in steps]  # type: ignore[arg-type]


def test_a_sudden_concentration_goes_back_and_steady_ones_do_not() -> None:
    assert reasons(Adaptive(), [predicting(10)] * 20 + [predicting(3)]) == [False] * 20 + [True]
    assert not any(reasons(Adaptive(), [predicting(1)] * 30))  # one class at a time from the start on: that is usual


def test_the_deeper_the_drop_the_more_layers_and_always_the_last() -> None:
    restored = {}
    for classes in (6, 2):
        method = Network()
        assert reasons(Adaptive(), [predicting(10)] * 20 + [predicting(classes)], method)[-1]
        restored[classes] = method.restored
        assert method.resets == 0
    assert restored[6][-1] == restored[2][-1] == 9
    assert len(restored[2]) > len(restored[6])


def test_a_single_class_is_a_reset() -> None:
    method, recovery = Network(), Adaptive()
    reasons(recovery, [predicting(10)] * 20, method)
    reason = recovery.recover(method, predicting(1))  # type: ignore[arg-type]
    assert reason
    assert "all of the model" in reason
    assert method.resets == 1


def test_a_collapse_does_not_become_usual_at_once() -> None:
    """A batch beyond the margin counts as the margin, so a model that collapses repeatedly is reset each time."""
    assert reasons(Adaptive(), [predicting(10)] * 20 + [predicting(1)] * 5)[-5:] == [True] * 5


def test_a_lasting_change_becomes_usual() -> None:
    by_batch = reasons(Adaptive(), [predicting(10)] * 20 + [predicting(2)] * 200)
    assert by_batch[20]
    assert not any(by_batch[-50:])


def test_the_layers_that_go_back_hold_source_values() -> None:
    inputs = torch.rand(2, 8, 3, 16, 16, generator=torch.Generator().manual_seed(0))
    model = adapt(tiny_resnet(), "tent", recovery=Adaptive(deviations=-100.0, min_margin=-10.0, min_share=0.3), lr=0.1)
    steps = [model.step(batch) for batch in inputs]
    assert steps[0].recovered is None
    assert steps[1].recovered
    trained = model.method.trained
    back = [torch.equal(*pair) for pair in zip(trained, model.method.source_weights(), strict=True)]
    count = math.ceil(0.3 * len(trained))
    assert back == [False] * (len(trained) - count) + [True] * count


def test_options_that_make_no_sense_are_refused() -> None:
    with pytest.raises(ValueError, match="momentum of recovery 'adaptive' must be a number from 0 to below 1, got 1"):
        resolve("tent", recovery=Adaptive(momentum=1))
    with pytest.raises(ValueError, match="of recovery 'adaptive' must be a number above 0 and up to 1, got 0"):
        resolve("tent", recovery="adaptive", min_share=0)


def test_faulty_inputs_are_no_evidence() -> None:
    logits: Tensor = torch.zeros(4, 10)
    recovery = Adaptive()
    recovery.recover(Network(), Step(logits, events=(Refused("non-finite logits"),)))  # type: ignore[arg-type]
    assert recovery.usual is None
