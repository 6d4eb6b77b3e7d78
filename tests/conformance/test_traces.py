"""Compare every method with its recorded traces.

The folder `golden` beside this file holds the first batches of each trace; the default tests use it. The whole traces
are not shipped. Where they lie beside the repository (`shared/golden`), the slow tests compare with all batches. Twins,
which run the same code with other options, are left out here; `holdfast conformance --golden FOLDER` includes them.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.conformance import CASES, STREAMS, Case, judge
from holdfast.recipes import recipe_names

SHIPPED = Path(__file__).parent / "golden"
WHOLE = Path(__file__).resolve().parents[3] / "shared" / "golden"
# Methods without a recorded official run, whose official values are compared in tests/methods, or which are ours.
NEW_WITHOUT_TRACE = {"t3a", "neo", "unitta_auto", "dhauds", "conmix", "anchor", "blend", "guard"}


def check(case: Case, stream: str, golden: Path) -> None:
    verdict = judge(case, stream, golden)
    assert verdict.passed, f"differs by {verdict.difference:.2g}, allowed {verdict.tolerance:.2g}; {verdict.note}"


@pytest.mark.parametrize("stream", STREAMS)
@pytest.mark.parametrize("case", [case for case in CASES if not case.twin], ids=lambda c: c.trace)
def test_the_first_predictions_equal_the_official_ones(case: Case, stream: str) -> None:
    check(case, stream, SHIPPED)


@pytest.mark.slow
@pytest.mark.skipif(not (WHOLE / "traces").is_dir(), reason="the whole traces are not on this machine")
@pytest.mark.parametrize("stream", STREAMS)
@pytest.mark.parametrize("case", [case for case in CASES if not case.twin], ids=lambda case: case.trace)
def test_all_predictions_and_states_equal_the_official_ones(case: Case, stream: str) -> None:
    check(case, stream, WHOLE)


def test_every_recipe_has_a_trace() -> None:
    traced = {case.recipe for case in CASES}
    missing = set(recipe_names()) - traced - NEW_WITHOUT_TRACE
    assert not missing, f"record a trace of {missing} in holdfast/conformance, or add the names to NEW_WITHOUT_TRACE"
    assert traced == set(recipe_names()) - NEW_WITHOUT_TRACE
