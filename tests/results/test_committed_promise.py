"""What docs/promise.md and its results page claim is in the committed results, and their tables are made of them."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "docs" / "promise_table.py"
pytestmark = pytest.mark.skipif(not SCRIPT.exists(), reason="the documents are not beside the tests")


@pytest.fixture(scope="module")
def made() -> dict[str, Any]:
    return runpy.run_path(str(SCRIPT))


def of_kind(made: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    return [row for row in made["rows"]() if row["kind"] == kind]


@pytest.mark.parametrize("kind", ["transfer", "without BatchNorm", "scratch"])
def test_with_source_samples_the_default_is_not_below_a_source_that_is_mostly_right(
    made: dict[str, Any], kind: str
) -> None:
    mine = of_kind(made, kind)
    over, accuracy = made["gains"]("blend", mine), made["source"](mine)
    assert len({row["subject"] for row in mine}) >= 3
    assert min(gain for key, gain in over.items() if accuracy[key] > 50) >= -0.5
    assert sum(over.values()) / len(over) > 4


def test_on_paintings_and_cartoons_the_default_gains_eight_points(made: dict[str, Any]) -> None:
    over = made["gains"]("blend", of_kind(made, "transfer"))
    chosen = [
        gain
        for (name, stream), gain in over.items()
        if "PACS" in name and stream.startswith(("art", "cartoon")) and stream.endswith(("i.i.d.", "sorted"))
    ]
    assert len(chosen) >= 8
    assert sum(chosen) / len(chosen) >= 8


def test_without_source_samples_the_default_is_the_source(made: dict[str, Any]) -> None:
    over = made["gains"]("blend, no card", made["rows"]())
    assert len(over) > 60
    assert not any(over.values())


def test_batch_statistics_are_far_below_the_source_on_a_pretrained_network(made: dict[str, Any]) -> None:
    assert min(made["gains"]("batch_norm", of_kind(made, "transfer")).values()) < -50


def test_confidences_are_at_least_as_calibrated_as_those_of_the_source(made: dict[str, Any]) -> None:
    errors = [row["calibration"] for row in made["rows"]() if "blend" in row["calibration"]]
    source, blend = (sum(error[name] for error in errors) / len(errors) for name in ("source", "blend"))
    assert blend < source


def test_networks_of_half_b_confirm_what_was_chosen_on_half_a(made: dict[str, Any]) -> None:
    for half in ("A", "B"):
        mine = [row for row in made["rows"]() if row["half"] == half]
        over = made["gains"]("blend", mine)
        assert sum(over.values()) / len(over) > 4
        assert len({row["subject"] for row in mine}) >= 5
