"""How often the 90 % interval of `anchored` held: what docs/results/estimators.md claims of results/coverage.json."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

RESULT = Path(__file__).resolve().parents[2] / "results" / "coverage.json"
pytestmark = pytest.mark.skipif(not RESULT.exists(), reason="the results are not beside the tests")


@pytest.fixture(scope="module")
def content() -> dict[str, Any]:
    parsed: dict[str, Any] = json.loads(RESULT.read_text())
    return parsed


def coverage(content: dict[str, Any], **wanted: Any) -> float:
    """Return the share of windows with an estimate whose interval holds the accuracy, over matching rows."""
    rows = [row for row in content["rows"] if all(row[key] == value for key, value in wanted.items())]
    known = sum(row["windows"] - row["unknown"] for row in rows)
    assert known > 0
    return float(sum(row.get("covered", 0) for row in rows) / known)


@pytest.mark.parametrize("draw", [0, 1, 2])
@pytest.mark.parametrize("scale", ["labels", "accuracy", "inputs", "nothing"])
def test_nine_tenths_hold_on_every_draw(content: dict[str, Any], draw: int, scale: str) -> None:
    assert 0.9 <= coverage(content, draw=draw, scale=scale) <= 0.99


@pytest.mark.parametrize("scale", ["labels", "accuracy"])
def test_with_labels_the_interval_holds_on_every_network_and_stream_that_was_not_chosen_on(
    content: dict[str, Any], scale: str
) -> None:
    confirmed = [row for row in content["rows"] if row["draw"] not in content["manifest"]["chosen_on"]]
    rows = [row for row in confirmed if row["scale"] == scale]
    assert len(rows) == 28
    for row in rows:
        assert row["covered"] >= 0.85 * row["windows"], row


def test_few_cells_are_below_without_labels_and_the_page_names_them(content: dict[str, Any]) -> None:
    low = {
        (row["network"], row["stream"], row["scale"])
        for row in content["rows"]
        if row["draw"] == 2 and row.get("covered", row["windows"]) < 0.85 * (row["windows"] - row["unknown"])
    }
    assert low == {
        ("digits_resnet", "sorted", "inputs"),
        ("digits_resnet", "sorted", "nothing"),
        ("keywords_amaut", "sorted", "nothing"),
        ("efficientnet_lite0", "correlated", "nothing"),
    }


def test_the_estimates_of_a_new_network_are_near_without_labels(content: dict[str, Any]) -> None:
    rows = [row for row in content["rows"] if row["network"] == "efficientnet_lite0" and row["stream"] == "iid"]
    assert {row["scale"] for row in rows} == {"labels", "accuracy", "inputs", "nothing"}
    for row in rows:
        assert row["covered"] >= row["windows"] - 2, row
        assert abs(row["bias"]) < 0.06, row
        assert row["width"] < 0.65, row


def test_a_known_accuracy_says_no_more_than_labels(content: dict[str, Any]) -> None:
    widths = {(row["draw"], row["network"], row["stream"], row["scale"]): row.get("width") for row in content["rows"]}
    for (draw, network, stream, scale), width in widths.items():
        if scale == "accuracy":
            assert width >= widths[draw, network, stream, "labels"] - 0.03, (draw, network, stream)


def test_no_accuracy_is_more_than_half_outside(content: dict[str, Any]) -> None:
    assert max(row.get("outside", 0) for row in content["rows"]) < 0.5


def test_without_batch_norm_and_labels_the_accuracy_is_unknown_and_never_wrong(content: dict[str, Any]) -> None:
    for row in content["rows"]:
        if row["network"] in ("digits_resnet_gn", "digits_vit"):
            expected = 0 if row["scale"] in ("labels", "accuracy") else row["windows"]
            assert row["unknown"] == expected, row


def test_all_networks_and_streams_of_the_promise_are_measured_on_every_draw(content: dict[str, Any]) -> None:
    measured = {(row["draw"], row["network"], row["stream"]) for row in content["rows"]}
    assert {network for _, network, _ in measured} == set(content["manifest"]["settings"])
    assert len(measured) == 3 * 4 * len(content["manifest"]["settings"])
