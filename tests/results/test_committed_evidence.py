"""Alarms, confidence sequences and audits: what the committed measurements show."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

RESULT = Path(__file__).resolve().parents[2] / "results" / "evidence.json"
pytestmark = pytest.mark.skipif(not RESULT.exists(), reason="the results are not beside the tests")


@pytest.fixture(scope="module")
def measured() -> dict[str, Any]:
    """The measurements."""
    content: dict[str, Any] = json.loads(RESULT.read_text())
    return content


def test_false_alarms_over_1000_healthy_streams_are_at_most_the_level(measured: dict[str, Any]) -> None:
    assert measured["alarm"]["streams"] == 1000
    for name, share in measured["alarm"]["share of healthy streams with an alarm"].items():
        assert share <= float(name.split(",")[0].removeprefix("level "))


def test_our_sequences_are_narrower_than_empirical_bernstein_and_hold(measured: dict[str, Any]) -> None:
    for widths in measured["sequence"]["width"].values():
        ours, other = widths["constant stakes (ours)"], widths["empirical Bernstein"]
        assert all(mine < theirs for mine, theirs in zip(ours[1:], other[1:], strict=True))
    assert min(measured["sequence"]["share of streams whose 100 intervals of 90 % all hold"].values()) >= 0.9


def test_audits_hold_on_recorded_streams_and_save_labels(measured: dict[str, Any]) -> None:
    held = measured["audit"]["share of audits whose intervals of 90 % all hold"]
    assert min(min(shares.values()) for shares in held.values()) >= 0.9
    for network in measured["audit"]["labels until the 95 % lower bound is within points of the value"].values():
        for target, saved in (("accuracy", 1.2), ("gain", 2)):
            labels = network["labels"][target]
            for points, needed in labels["with prediction power"].items():
                assert saved * needed < labels["uniform sampling"][points]


def test_agreement_mends_the_temperature_of_a_network_that_was_not_used_to_choose_it(measured: dict[str, Any]) -> None:
    errors = measured["scale"]["effnet-A-0-clean_iid"]["temperature and error in points"]
    assert abs(errors["agreement with the source"][1]) < 5
    assert abs(errors["default 1.75"][1]) > 60
