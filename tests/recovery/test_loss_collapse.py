"""Reset on an implausibly small loss: the moving average, its threshold, and the effect of a reset."""

from __future__ import annotations

import math

import pytest
import torch

from holdfast.model.adapt import adapt
from holdfast.models.tiny import tiny_resnet
from holdfast.recipes import resolve
from holdfast.records import Step
from holdfast.recovery.loss_collapse import LossCollapse

# Second-pass losses of SAR on the golden i.i.d. stream, 25 batches.
LOSSES = [
    *(0.2258, 0.3303, 0.2561, 0.2580, 0.2522, 0.1631, 0.2215, 0.1693, 0.1804, 0.1894, 0.1748, 0.1493, 0.1701),
    *(0.1414, 0.1544, 0.1393, 0.1794, 0.1647, 0.1726, 0.1138, 0.2172, 0.2267, 0.2204, 0.2342, 0.3249),
]


class Counted:
    """Counts how often it was sent back."""

    resets = 0

    def reset(self) -> None:
        self.resets += 1

    def restore(self, mask: object) -> None:
        raise AssertionError("only whole resets")


def step(loss: float | None, classes: int = 10) -> Step:
    return Step(torch.zeros(2, classes), loss)


def resets_at(recovery: LossCollapse, losses: list[float]) -> list[int]:
    method = Counted()
    batches = [batch for batch, loss in enumerate(losses) if recovery.recover(method, step(loss))]
    assert method.resets == len(batches)
    return batches


@pytest.mark.parametrize(("keep_average", "last"), [(True, 23), (False, 19)])
def test_the_recorded_resets_come_out_of_the_recorded_losses(keep_average: bool, last: int) -> None:
    assert resets_at(LossCollapse(keep_average=keep_average), LOSSES) == list(range(13, last + 1))


def test_the_average_starts_at_the_first_loss_and_moves_by_a_tenth() -> None:
    recovery = LossCollapse()
    recovery.recover(Counted(), step(1.0))
    assert recovery.average == pytest.approx(1.0)
    recovery.recover(Counted(), step(0.5))
    assert recovery.average == pytest.approx(0.95)


@pytest.mark.parametrize("loss", [None, math.nan, 0.0])
def test_batches_without_a_loss_are_not_averaged(loss: float | None) -> None:
    recovery = LossCollapse()
    assert recovery.recover(Counted(), step(loss)) is None
    recovery.recover(Counted(), step(0.3))
    recovery.recover(Counted(), step(loss))
    assert recovery.average == pytest.approx(0.3)


def test_a_reset_forgets_the_average_unless_it_is_kept() -> None:
    forgetting, keeping = LossCollapse(), LossCollapse(keep_average=True)
    for recovery in (forgetting, keeping):
        assert recovery.recover(Counted(), step(0.1)) == "moving average of the loss 0.1 below 0.2"
    assert forgetting.average is None
    assert keeping.average == pytest.approx(0.1)


def test_the_threshold_can_follow_the_number_of_classes() -> None:
    for classes, threshold in ((10, 0.2 / 3), (1000, 0.2)):
        for loss, due in ((threshold * 1.01, False), (threshold * 0.99, True)):
            recovery = LossCollapse(reset_threshold="scaled")
            assert bool(recovery.recover(Counted(), step(loss, classes))) == due


def test_an_unknown_threshold_is_refused() -> None:
    with pytest.raises(ValueError, match="'scaled'"):
        resolve("sar", reset_threshold="scalled")


def test_it_guards_other_methods_too() -> None:
    inputs = torch.rand(8, 3, 16, 16, generator=torch.Generator().manual_seed(0))
    model = adapt(tiny_resnet(), "tent", recovery="loss_collapse", reset_threshold=10.0, lr=0.1)
    first = model.step(inputs)
    assert first.recovered
    assert torch.equal(model(inputs), first.logits)
