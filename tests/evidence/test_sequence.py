"""Confidence sequences cover the running mean at all times at once, and are as narrow as they should be."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from holdfast.evidence import ConfidenceSequence
from holdfast.evidence.bets import SumBets


def misses(means: np.ndarray, streams: int, confidence: float, looks: range) -> int:
    """Return in how many streams of coins with these means any of the looked-at intervals is wrong."""
    rng = np.random.default_rng(0)
    missed = 0
    for _ in range(streams):
        sequence, wrong = ConfidenceSequence(confidence=confidence), False
        values = (rng.random(len(means)) < means).astype(float)
        for start in looks:
            sequence.observe(values[start : start + looks.step])
            now = sequence.interval()
            wrong |= not now.low <= means[: start + looks.step].mean() <= now.high
        missed += wrong
    return missed


@pytest.mark.parametrize("kind", ["constant", "rare", "drifting", "periodic"])
def test_all_intervals_of_a_stream_hold_at_once(kind: str) -> None:
    position = np.arange(400)
    means = {
        "constant": np.full(400, 0.5),
        "rare": np.full(400, 0.02),
        "drifting": position / 400,
        "periodic": 0.5 + 0.5 * np.sign(np.sin(position / 20)),
    }[kind]
    assert misses(means, 100, 0.8, range(0, 400, 20)) <= 20


def test_the_interval_is_narrow() -> None:
    values = (np.random.default_rng(0).random(3000) < 0.8).astype(float)
    sequence = ConfidenceSequence()
    sequence.observe(values)
    now = sequence.interval()
    fixed_time = 2 * 1.96 * values.std() / math.sqrt(len(values))
    assert now.high - now.low < 2 * fixed_time
    assert now.value == pytest.approx(values.mean())
    assert now.samples == 3000


def test_other_ranges_are_the_same_up_to_scale() -> None:
    values = np.random.default_rng(0).random(200)
    first, second = ConfidenceSequence(), ConfidenceSequence(lowest=-1, highest=1)
    first.observe(values)
    second.observe(2 * values - 1)
    assert second.interval().low == pytest.approx(2 * first.interval().low - 1)
    assert second.interval().high == pytest.approx(2 * first.interval().high - 1)


def test_saved_state_continues_exactly() -> None:
    values = np.random.default_rng(0).random(200)
    first, second = ConfidenceSequence(), ConfidenceSequence()
    first.observe(values[:100])
    second.load_state_dict(json.loads(json.dumps(first.state_dict())))
    first.observe(values[100:])
    second.observe(values[100:])
    assert second.interval() == first.interval()
    assert second.state_dict() == first.state_dict()


def test_nothing_is_known_before_the_first_observation() -> None:
    now = ConfidenceSequence(lowest=-1).interval()
    assert math.isnan(now.value)
    assert (now.low, now.high) == (-1, 1)


def test_wrong_settings_and_values_are_refused() -> None:
    sequence = ConfidenceSequence()
    with pytest.raises(ValueError, match="an observation must be between 0 and 1"):
        sequence.observe([0.5, 1.5])
    assert sequence.state_dict() == ConfidenceSequence().state_dict()
    with pytest.raises(ValueError, match="confidence must be between 0 and 1, got 95"):
        ConfidenceSequence(confidence=95)
    with pytest.raises(ValueError, match="lowest must be below highest"):
        ConfidenceSequence(lowest=1)
    with pytest.raises(ValueError, match="one number or a flat list"):
        sequence.observe(np.zeros((2, 2)))
    with pytest.raises(RuntimeError, match="Missing key"):
        sequence.load_state_dict({"mean._extra_state": {"samples": 0, "total": 0.0, "centres": 0.0}})
    sequence.mean.bets.set_extra_state({"up": [0.0], "down": [0.0]})
    with pytest.raises(ValueError, match="there are 10 stakes, and wealth of 1 and 1"):
        sequence.mean.bets.check_state()


def test_one_stake_by_hand_gives_half_of_the_error_to_each_bound() -> None:
    bets = SumBets(largest=0.5, stakes=1)
    bets.add([1.0, 0.5])
    goal = math.log(2 / 0.05)  # of a wealth that a bound of 95 % excludes, on one of two sides
    low, high = bets.bounds(0.95)
    assert low == pytest.approx((math.log(1.5) + math.log(1.25) - goal) / 0.5)
    assert high == pytest.approx(-(math.log(0.5) + math.log(0.75) - goal) / 0.5)
