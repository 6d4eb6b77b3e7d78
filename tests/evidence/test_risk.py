"""The risk monitor: rarely a false alarm, and soon a true one, for networks that change on the way."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from holdfast.evidence import ConfidenceSequence, RiskMonitor


def predicted(rng: np.random.Generator, samples: int, error: float) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Proxies and errors: wrong predictions are uncertain, most right ones are not."""
    wrong = rng.random(samples) < error
    return np.where(wrong, 0.4 + 0.6 * rng.random(samples), 0.5 * rng.random(samples)), wrong


def alarm_after(rng: np.random.Generator, error: float, *, samples: int = 4000) -> int | None:
    """Return the number of samples until an alarm, with a new calibration every 500 samples, or None."""
    monitor = RiskMonitor(predicted(rng, 2000, 0.1)[1], tolerated=0.05, level=0.05)
    for batch in range(samples // 50):
        if batch % 10 == 0:
            monitor.calibrate(*predicted(rng, 2000, 0.1))
        if monitor.observe(predicted(rng, 50, error)[0]):
            return 50 * (batch + 1)
    return None


def test_an_error_within_the_tolerated_raises_no_alarm() -> None:
    alarms = [alarm_after(np.random.default_rng(seed), 0.15) for seed in range(20)]
    assert sum(alarm is not None for alarm in alarms) <= 1


def test_a_larger_error_is_found_the_sooner_the_larger_it_is() -> None:
    delays = [alarm_after(np.random.default_rng(0), error) for error in (0.4, 0.6, 0.9)]
    assert all(delay is not None for delay in delays)
    assert delays == sorted(delays, key=lambda delay: -(delay or 0))
    assert delays[0] != delays[2]


def test_a_proxy_that_tells_nothing_never_raises_an_alarm() -> None:
    rng = np.random.default_rng(0)
    monitor = RiskMonitor(rng.random(1000) < 0.1)
    monitor.calibrate(np.ones(1000), rng.random(1000) < 0.1)
    assert not monitor.observe(np.full(5000, 10.0))
    assert monitor.low <= 0


def test_a_state_is_returned_to_exactly() -> None:
    rng = np.random.default_rng(0)
    monitor = RiskMonitor(predicted(rng, 500, 0.1)[1])
    monitor.calibrate(*predicted(rng, 500, 0.1))
    earlier = monitor.state_dict()
    monitor.observe(predicted(rng, 300, 0.9)[0])
    later = monitor.low
    monitor.load_state_dict(earlier)
    assert monitor.low < later


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: RiskMonitor([0.5]), "an error must be 0 or 1"),
        (lambda: RiskMonitor([0], level=2.0), "level must be between 0 and 1, got 2.0"),
        (lambda: RiskMonitor([0], tolerated=-0.1), "tolerated must be at least 0"),
        (lambda: RiskMonitor([0]).calibrate([0.1, 0.2], [0]), "one error for each proxy, got 1 and 2"),
        (lambda: RiskMonitor([0]).observe([float("nan")]), "not a number"),
    ],
)
def test_unusable_values_are_refused(call: object, words: str) -> None:
    assert callable(call)
    with pytest.raises(ValueError, match=words):
        call()


def test_what_held_out_data_may_hide_counts_against_an_alarm() -> None:
    wrong = np.arange(100) < 20
    monitor = RiskMonitor(wrong, level=0.05)
    monitor.calibrate(np.where(np.arange(100) < 30, 0.9, 0.1), wrong)  # ten right predictions look wrong
    assert monitor.right_above == pytest.approx(0.1 + math.sqrt(math.log(3 / 0.05) / 200))


def test_what_few_source_data_may_hide_is_allowed_too() -> None:
    wrong = np.arange(100) < 20
    source = ConfidenceSequence(confidence=1 - 2 * 0.06 / 3)  # a third of the level, on one of two sides
    source.observe(wrong.astype(float))
    assert RiskMonitor(wrong, tolerated=0.05, level=0.06).allowed == source.interval().high + 0.05 > 0.3
