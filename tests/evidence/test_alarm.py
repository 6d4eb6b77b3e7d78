"""The alarm is rarely false on healthy streams, fires soon on harmful ones, and its state can be saved."""

from __future__ import annotations

import json

import numpy as np
import pytest

from holdfast.evidence import LossAlarm


def coins(streams: int, samples: int, up: float, down: float, seed: int = 0) -> np.ndarray:
    """Return losses of 1 with probability `up`, −1 with probability `down`, else 0."""
    draws = np.random.default_rng(seed).random((streams, samples))
    return (draws < up) * 1.0 - (draws > 1 - down)


@pytest.mark.parametrize(("up", "down"), [(0.5, 0.5), (0.05, 0.05)])
def test_false_alarms_on_healthy_streams_are_at_most_the_level(up: float, down: float) -> None:
    losses = coins(1000, 200, up, down)
    alarmed = sum(LossAlarm(level=0.1).observe(stream) for stream in losses)
    assert 5 < alarmed <= 100  # fewer than five would be an alarm that never fires


def test_dependent_losses_are_healthy_when_each_has_no_positive_expectation() -> None:
    # Martingale differences whose size follows the sign of the loss before: fair, but far from independent.
    signs = coins(400, 200, 0.5, 0.5, seed=1)
    sizes = np.where(np.roll(signs, 1, axis=1) > 0, 1.0, 0.1)
    assert sum(LossAlarm(level=0.1).observe(stream) for stream in signs * sizes) <= 40


@pytest.mark.parametrize(("up", "within"), [(0.5, 128), (0.2, 640)])
def test_harm_after_a_long_healthy_past_is_detected(up: float, within: int) -> None:
    raised = []
    for healthy, harmful in zip(coins(20, 2000, 0.05, 0.08), coins(20, within, up, 0.05, seed=1), strict=True):
        alarm = LossAlarm(level=0.01)
        assert not alarm.observe(healthy)
        raised.append(alarm.observe(harmful))
    assert sum(raised) >= 19


def test_batches_and_single_losses_give_the_same_numbers() -> None:
    losses = coins(1, 500, 0.3, 0.1)[0]
    together, alone = LossAlarm(), LossAlarm()
    assert together.observe(losses) == bool(sum(alone.observe(loss) for loss in losses))
    assert together.state_dict() == alone.state_dict()


def test_saved_state_continues_exactly() -> None:
    losses = coins(1, 300, 0.2, 0.1)[0]
    whole, first, second = LossAlarm(), LossAlarm(), LossAlarm()
    whole.observe(losses)
    first.observe(losses[:100])
    second.load_state_dict(json.loads(json.dumps(first.state_dict())))
    second.observe(losses[100:])
    assert second.state_dict() == whole.state_dict()


def test_an_alarm_starts_the_test_anew() -> None:
    alarm = LossAlarm()
    assert alarm.observe([1.0] * 20)
    assert alarm.raised == 1
    assert alarm.seen < 20
    assert alarm.evidence < 100
    alarm.observe([-1.0] * 5)
    assert alarm.observe([1.0] * 40)


def test_a_tolerated_loss_raises_no_alarm_and_a_larger_one_does() -> None:
    harmful = coins(1, 2000, 0.2, 0.1)[0]  # 0.1 on average
    assert LossAlarm(tolerated=0.0).observe(harmful)
    assert not LossAlarm(tolerated=0.2).observe(harmful)
    errors = (coins(1, 2000, 0.3, 0.0)[0] > 0) * 1.0
    assert LossAlarm(tolerated=0.1, lowest=0.0).observe(errors)


def test_a_refused_loss_changes_nothing() -> None:
    alarm = LossAlarm()
    for wrong in ([0.0, 1.5], [0.0, float("nan")]):
        with pytest.raises(ValueError, match="a loss must be between -1 and 1"):
            alarm.observe(wrong)
    assert alarm.state_dict() == LossAlarm().state_dict()
    alarm.load_state_dict({"_extra_state": {"numbers": {"seen": 1.0}}})
    with pytest.raises(ValueError, match="an alarm has"):
        alarm.check_state()
    with pytest.raises(ValueError, match="level must be between 0 and 1, got 0"):
        LossAlarm(level=0)
    with pytest.raises(ValueError, match="tolerated must be between lowest"):
        LossAlarm(tolerated=2)
