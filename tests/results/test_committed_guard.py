"""What results/guard.json shows: failing updates do not reach what the guard serves."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

RESULT = Path(__file__).resolve().parents[2] / "results" / "guard.json"
pytestmark = pytest.mark.skipif(not RESULT.exists(), reason="the results are not beside the tests")


@pytest.mark.parametrize("stream", ["ten times the learning rate", "collapse"])
def test_from_batch_40_on_the_guard_is_near_the_anchor_and_far_above_the_source(stream: str) -> None:
    accuracy = json.loads(RESULT.read_text())["streams"][stream]["accuracy"]
    assert accuracy["guard(tent)"] >= accuracy["anchor"] - 0.02  # where the source has a say, it costs a little
    assert accuracy["guard(tent)"] > accuracy["source"] + 0.25


def test_the_scripted_collapse_ruins_tent_alone() -> None:
    accuracy = json.loads(RESULT.read_text())["streams"]["collapse"]["accuracy"]
    assert accuracy["tent"] < 0.2


def test_on_healthy_streams_at_most_one_batch_in_a_thousand_raises_an_alarm_or_is_undone() -> None:
    healthy = [stream for stream in json.loads(RESULT.read_text())["streams"].values() if "resets" in stream]
    assert sum(stream["batches"] for stream in healthy) >= 3000
    assert sum(stream["alarms"] + stream["undone"] for stream in healthy) <= 3
    assert sum(stream["regrets"] for stream in healthy) <= 3  # resets by the recovery `regret`
