"""Every method against its recorded traces.

`golden` beside this file holds their first batches, and is compared with by default. The whole traces lie beside the
repository (`shared/golden`) and are not shipped; where they are, the slow tests compare with them to the end. Twins,
the same code with other options, would take as long again: `holdfast conformance --golden FOLDER` has them all.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.conformance import CASES, STREAMS, Case, judge
from holdfast.recipes import recipe_names

SHIPPED = Path(__file__).parent / "golden"
WHOLE = Path(__file__).resolve().parents[3] / "shared" / "golden"
# No official run was recorded, or other values of it are compared beside the method, or the method is ours.
NEW_WITHOUT_TRACE = {"t3a", "neo", "unitta_auto", "dhauds", "conmix"}


def check(case: Case, stream: str, golden: Path) -> None:
    verdict = judge(case, stream, golden)
    assert verdict.passed, f"differs by {verdict.difference:.2g}, allowed {verdict.tolerance:.2g}; {verdict.note}"


@pytest.mark.parametrize("stream", STREAMS)
@pytest.mark.parametrize("case", [case for case in CASES if not case.twin], ids=lambda c: c.trace)
def test_the_first_answers_are_those_of_the_official_code(case: Case, stream: str) -> None:
    check(case, stream, SHIPPED)


@pytest.mark.slow
@pytest.mark.skipif(not (WHOLE / "traces").is_dir(), reason="the whole traces are not on this machine")
@pytest.mark.parametrize("stream", STREAMS)
@pytest.mark.parametrize("case", [case for case in CASES if not case.twin], ids=lambda case: case.trace)
def test_all_answers_and_states_are_those_of_the_official_code(case: Case, stream: str) -> None:
    check(case, stream, WHOLE)


def test_every_recipe_has_a_trace() -> None:
    assert {case.recipe for case in CASES} == set(recipe_names()) - NEW_WITHOUT_TRACE
