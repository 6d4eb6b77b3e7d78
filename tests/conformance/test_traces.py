"""Compare every method with its recorded traces.

The folder `golden` beside this file holds the first batches of each trace. The default tests compare one trace of each
recipe after one update, in double precision where rounding decides. The slow tests compare all shipped batches, the
other traces and those with correlated classes. The whole traces are not shipped. Where they lie beside the repository
(`shared/golden`), the slow tests compare one trace of each recipe with all batches, further ones with the
class-correlated stream, and those in double precision with its first five batches.
Twins, which run the same code with other options, are left out here. `holdfast conformance --golden FOLDER` compares
everything with all batches.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.conformance import CASES, Case, judge
from holdfast.recipes import recipe_names

SHIPPED = Path(__file__).parent / "golden"
WHOLE = Path(__file__).resolve().parents[3] / "shared" / "golden"
# Methods without a recorded official run, whose official values are compared in tests/methods, or which are ours.
NEW_WITHOUT_TRACE = {"t3a", "neo", "unitta_auto", "dhauds", "conmix", "anchor", "blend", "guard"}
# Traces in double precision are those whose later batches rounding decides in single precision.
DOUBLE = [case for case in CASES if not case.twin and (SHIPPED / "traces" / f"{case.trace}_f64.npz").exists()]
SINGLE = [case for case in CASES if not case.twin and case not in DOUBLE]
# Double precision is slow: seconds for each of these. The first batches of asr_roid are those of ROID.
LATER = {"asr_roid", "poem", "cmf", "deyo", "zerosiam", "come_tent"}
ONE_EACH = list({case.recipe: case for case in reversed(SINGLE + DOUBLE)}.values())

needs_whole_traces = pytest.mark.skipif(
    not (WHOLE / "traces").is_dir(), reason="the whole traces are not on this machine"
)


def check(case: Case, stream: str, golden: Path, samples: int | None = None) -> None:
    verdict = judge(case, stream, golden, samples=samples)
    assert verdict.passed, f"differs by {verdict.difference:.2g}, allowed {verdict.tolerance:.2g}; {verdict.note}"


@pytest.mark.parametrize("case", [case for case in ONE_EACH if case in SINGLE], ids=lambda case: case.trace)
def test_the_first_predictions_equal_the_official_ones(case: Case) -> None:
    check(case, "iid", SHIPPED, samples=2 * case.batch_size)


@pytest.mark.slow
@pytest.mark.parametrize("case", SINGLE, ids=lambda case: case.trace)
def test_all_shipped_predictions_equal_the_official_ones(case: Case) -> None:
    check(case, "iid", SHIPPED)


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, marks=[pytest.mark.slow] if case.recipe in LATER else [], id=case.trace)
        for case in ONE_EACH
        if case in DOUBLE
    ],
)
def test_the_first_predictions_in_double_precision_equal_the_official_ones(case: Case) -> None:
    check(case, "iid", SHIPPED, samples=2 * case.batch_size)


@pytest.mark.slow
@pytest.mark.parametrize("case", [case for case in ONE_EACH if case in SINGLE], ids=lambda case: case.trace)
def test_the_first_predictions_on_correlated_classes_equal_the_official_ones(case: Case) -> None:
    check(case, "cor", SHIPPED)


@pytest.mark.slow
@needs_whole_traces
@pytest.mark.parametrize("case", SINGLE, ids=lambda case: case.trace)
def test_all_predictions_and_states_on_correlated_classes_equal_the_official_ones(case: Case) -> None:
    check(case, "cor", WHOLE)


@pytest.mark.slow
@needs_whole_traces
@pytest.mark.parametrize("case", [case for case in ONE_EACH if case in SINGLE], ids=lambda case: case.trace)
def test_all_predictions_and_states_equal_the_official_ones(case: Case) -> None:
    check(case, "iid", WHOLE)


@pytest.mark.slow
@needs_whole_traces
@pytest.mark.parametrize("case", DOUBLE, ids=lambda case: case.trace)
def test_predictions_in_double_precision_equal_the_official_ones(case: Case) -> None:
    check(case, "cor", WHOLE, samples=5 * case.batch_size)


def test_every_recipe_has_a_trace() -> None:
    traced = {case.recipe for case in CASES}
    missing = set(recipe_names()) - traced - NEW_WITHOUT_TRACE
    assert not missing, f"record a trace of {missing} in holdfast/conformance, or add the names to NEW_WITHOUT_TRACE"
    assert traced == set(recipe_names()) - NEW_WITHOUT_TRACE
