"""How often the 90 % interval of `anchored` held: what docs/results/estimators.md claims of results/coverage.json."""

from __future__ import annotations

import json
import runpy
from pathlib import Path
from typing import Any

import pytest

RESULT = Path(__file__).resolve().parents[2] / "results" / "coverage.json"
pytestmark = pytest.mark.skipif(not RESULT.exists(), reason="the results are not beside the tests")


@pytest.fixture(scope="module")
def content() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(RESULT.read_text())
    return found


def coverage(content: dict[str, Any], **wanted: Any) -> float:
    """Return the share of windows with an estimate whose interval holds the accuracy, over matching rows."""
    settings = content["manifest"]["settings"]
    rows = [
        row
        for row in content["rows"]
        if all({**row, **settings[row["network"]]}[key] == value for key, value in wanted.items())
    ]
    known = sum(row["windows"] - row["unknown"] for row in rows)
    assert known > 0
    return float(sum(row.get("covered", 0) for row in rows) / known)


@pytest.mark.parametrize("chosen_on", [True, False])
@pytest.mark.parametrize("scale", ["labels", "nothing"])
def test_nine_tenths_hold_on_the_networks_of_either_half(content: dict[str, Any], chosen_on: bool, scale: str) -> None:
    assert 0.85 <= coverage(content, chosen_on=chosen_on, scale=scale) <= 0.97


def test_nearly_all_intervals_hold_the_accuracy_of_efficientnet_and_the_estimate_is_near_without_labels(
    content: dict[str, Any],
) -> None:
    rows = [row for row in content["rows"] if row["network"] == "efficientnet_lite0" and row["stream"] == "iid"]
    assert {row["scale"] for row in rows} == {"labels", "accuracy", "inputs", "nothing"}
    for row in rows:
        assert row["covered"] >= row["windows"] - 1, row
        assert abs(row["bias"]) < 0.06, row
        assert row["width"] < 0.55, row


@pytest.mark.parametrize("network", ["resnet20", "digits_resnet", "digits_resnet_gn", "resnet56", "efficientnet_lite0"])
def test_with_labels_the_interval_holds_on_every_stream(content: dict[str, Any], network: str) -> None:
    for stream in ("iid", "correlated", "sorted", "collapse"):
        assert coverage(content, network=network, stream=stream, scale="labels") >= 0.85, stream


def test_a_known_accuracy_says_no_more_than_labels(content: dict[str, Any]) -> None:
    widths = {(row["network"], row["stream"], row["scale"]): row.get("width") for row in content["rows"]}
    for (network, stream, scale), width in widths.items():
        if scale == "accuracy":
            assert width >= widths[network, stream, "labels"] - 0.01, (network, stream)


def test_no_accuracy_is_more_than_a_third_outside(content: dict[str, Any]) -> None:
    assert max(row.get("outside", 0) for row in content["rows"]) < 0.33


def test_without_batch_norm_and_labels_the_accuracy_is_unknown_and_never_wrong(content: dict[str, Any]) -> None:
    for row in content["rows"]:
        if row["network"] in ("digits_resnet_gn", "digits_vit"):
            expected = 0 if row["scale"] in ("labels", "accuracy") else row["windows"]
            assert row["unknown"] == expected, row


def test_all_networks_and_streams_of_the_promise_are_measured(content: dict[str, Any]) -> None:
    measured = {(row["network"], row["stream"]) for row in content["rows"]}
    assert {network for network, _ in measured} == set(content["manifest"]["settings"])
    assert len(measured) == 4 * len(content["manifest"]["settings"])


def test_the_table_of_the_page_is_that_of_the_result() -> None:
    made = runpy.run_path(str(RESULT.parents[1] / "docs" / "coverage_table.py"))
    assert made["PAGE"].read_text() == made["page"](), "run python docs/coverage_table.py"
