"""What docs/results/promise.md claims: on no stream is the blend below the source, and the tables are the result's."""

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


def test_the_tables_are_those_of_the_result(made: dict[str, Any]) -> None:
    for path, text in made["pages"]().items():
        assert path.read_text() == text, "run python docs/promise_table.py"


def test_the_blend_is_below_the_source_on_no_stream_and_best_on_average(made: dict[str, Any]) -> None:
    found = made["gains"]()
    source = found.pop("source")
    assert all(set(over) == set(source) for over in found.values())
    assert min(found["blend"].values()) > -0.5
    means = {recipe: sum(over.values()) / len(over) for recipe, over in found.items()}
    assert max(means, key=lambda recipe: means[recipe]) in ("blend", "guard(tent)")


def test_batch_statistics_are_far_below_the_source_and_the_guard_keeps_tent_from_it(made: dict[str, Any]) -> None:
    found = made["gains"]()
    assert min(found["batch_norm"].values()) < -50
    assert min(found["tent"].values()) < -50
    assert min(found["guard(tent)"].values()) > -1


@pytest.mark.parametrize(
    ("name", "streams", "worst"),
    [("promise-confirmed.json", 15, -0.75), ("promise-digits.json", 54, -0.5), ("promise-keywords.json", 14, 0.0)],
)
def test_on_networks_that_nothing_was_chosen_on_the_blend_is_hardly_ever_below_the_source(
    made: dict[str, Any], name: str, streams: int, worst: float
) -> None:
    found = made["gains"](made["RESULTS"] / name)
    assert len(found["source"]) == streams
    assert min(found["blend"].values()) > worst
    assert sum(found["blend"].values()) / streams > 5
    assert min(found["batch_norm"].values()) < -25
    below = [stream for stream, gain in found["blend"].items() if gain < -0.5]
    assert below == (["clean"] if name == "promise-confirmed.json" else [])  # as the page says


def test_with_noise_or_poison_in_every_batch_blend_and_guard_stay_above_the_source(made: dict[str, Any]) -> None:
    found = made["gains"](made["MORE"])
    for recipe in ("anchor", "blend", "guard(tent)"):
        assert min(found[recipe]["10 % noise"], found[recipe]["10 % poison"]) > 15, recipe
    assert len(found) == 29
    assert (
        max(found["note"]["mixed"], found["cotta (4 views)"]["mixed"]) > found["blend"]["mixed"]
    )  # and the page says so
