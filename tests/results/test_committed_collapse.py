"""What docs/results/recovery.md claims of results/collapse-delay.json: a collapse is noticed within five batches."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

RESULT = Path(__file__).resolve().parents[2] / "results" / "collapse-delay.json"
pytestmark = pytest.mark.skipif(not RESULT.exists(), reason="the results are not beside the tests")
WATCHERS = {f"{who}, {scale}" for who in ("regret", "alarm") for scale in ("labels", "nothing")}


@pytest.fixture(scope="module")
def rows() -> list[dict[str, Any]]:
    measured: list[dict[str, Any]] = json.loads(RESULT.read_text())["measured"]["rows"]
    return measured


def test_both_networks_collapse_by_more_than_ten_points(rows: list[dict[str, Any]]) -> None:
    assert {row["network"] for row in rows} == {"efficientnet_lite0", "digits_resnet"}
    for row in rows:
        batch = row["collapse"]
        assert row["accuracy"]["tent"][batch] < row["accuracy"]["source"][batch] - 0.1
        assert row["accuracy"]["tent"][-1] < row["accuracy"]["source"][-1] / 2  # and does not come back


def test_every_watcher_fires_within_five_batches_of_the_collapse(rows: list[dict[str, Any]]) -> None:
    for row in rows:
        assert row["first_reset"].keys() == WATCHERS
        for who, batch in row["first_reset"].items():
            assert batch is not None, (row["network"], row["script"], who)
            assert batch - row["collapse"] <= 5, (row["network"], row["script"], who)


def test_no_watcher_fires_before_the_collapse_begins(rows: list[dict[str, Any]]) -> None:
    assert all(batches == [] for row in rows for batches in row["false_resets"].values())
