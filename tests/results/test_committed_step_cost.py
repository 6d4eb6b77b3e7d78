"""What docs/devices.md and docs/promise.md claim of results/step-cost.json: no step is dearer than the official one."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import geometric_mean

import pytest

RESULT = Path(__file__).resolve().parents[2] / "results" / "step-cost.json"
pytestmark = pytest.mark.skipif(not RESULT.exists(), reason="the results are not beside the tests")
NEWEST = [
    "zerosiam",
    "come_tent",
    "come_eata",
    "come_sar",
    "deyo",
    "delta",
    "cmf",
    "petta",
    "poem",
    "reservoir",
    "asr_eta",
    "asr_roid",
]


@pytest.fixture(scope="module")
def rows() -> dict[str, dict[str, float]]:
    """Return what was measured for each row."""
    measured: dict[str, dict[str, float]] = json.loads(RESULT.read_text())["measured"]
    return measured


def test_no_method_is_dearer_than_its_official_code(rows: dict[str, dict[str, float]]) -> None:
    ratios = {name: row["forwards"] / row["official"] for name, row in rows.items() if row.get("official")}
    newest = {name: ratio for name, ratio in ratios.items() if name in NEWEST}
    assert max(ratios.values()) < 1
    assert (len(newest), len(ratios)) == (12, 45)
    assert geometric_mean(newest.values()) <= 0.75
    assert geometric_mean(ratio for name, ratio in ratios.items() if name not in newest) <= 0.70


def test_the_default_costs_less_than_three_forwards_and_waits_for_the_device_three_times(
    rows: dict[str, dict[str, float]],
) -> None:
    assert rows["anchor"]["forwards"] <= 1.35
    assert rows["blend"]["forwards"] <= 3
    assert rows["blend"]["waits"] == 3
    assert rows["pea"]["waits"] == 12
    assert max(row["waits"] for name, row in rows.items() if "waits" in row and name != "pea") <= 9
    assert max(rows[name]["waits"] for name in ("tent", "eta", "eata", "rdumb", "rpl", "slr")) <= 3
