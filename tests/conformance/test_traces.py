"""Compare every method with its recorded traces.

The folder `golden` beside this file holds the first batches of each trace. The default tests compare one trace of each
recipe and network after one update. The slow tests compare all shipped batches, the other traces, those with correlated
classes, and those in double precision, where rounding decides. The whole traces are not shipped. Where they lie beside
the repository (`shared/golden`), the slow tests compare one trace of each recipe with all batches, further ones with
the class-correlated stream, and those in double precision with its first five batches; on the small networks without
BatchNorm, with all of both streams.
Twins, which run the same code with other options, are left out here. `holdfast conformance --golden FOLDER` compares
everything with all batches.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from holdfast.conformance import CASES, STREAMS, Case, compare
from holdfast.conformance.pack import CIFAR
from holdfast.recipes import recipe_names

SHIPPED = Path(__file__).parent / "golden"
WHOLE = Path(__file__).resolve().parents[3] / "shared" / "golden"
# Methods without a recorded official run: ours, those whose official values are compared in tests/methods, and
# foa_shift, whose official code has a non-commercial licence; tda, whose official code takes CLIP only.
NEW_WITHOUT_TRACE = {"unitta_auto", "dhauds", "conmix", "anchor", "blend", "guard", "foa_shift", "tda"}
# Traces in double precision are those whose later batches rounding decides in single precision.
DOUBLE = [case for case in CASES if not case.twin and (SHIPPED / case.pack.traces / f"{case.trace}_f64.npz").exists()]
SINGLE = [case for case in CASES if not case.twin and case not in DOUBLE]
ONE_EACH = list({(case.recipe, case.pack): case for case in reversed(SINGLE + DOUBLE)}.values())

needs_whole_traces = pytest.mark.skipif(
    not all((WHOLE / case.pack.traces).is_dir() for case in CASES), reason="the whole traces are not on this machine"
)


def check(case: Case, stream: str, golden: Path, samples: int | None = None) -> None:
    outcome = compare(case, stream, golden, samples=samples)
    assert outcome.passed, f"differs by {outcome.difference:.2g}, allowed {outcome.tolerance:.2g}; {outcome.note}"


@pytest.mark.parametrize("case", [case for case in ONE_EACH if case in SINGLE], ids=lambda case: case.trace)
def test_the_first_predictions_equal_the_official_ones(case: Case) -> None:
    check(case, "iid", SHIPPED, samples=2 * case.batch_size)


@pytest.mark.slow
@pytest.mark.parametrize("case", SINGLE, ids=lambda case: case.trace)
def test_all_shipped_predictions_equal_the_official_ones(case: Case) -> None:
    check(case, "iid", SHIPPED)


@pytest.mark.slow
@pytest.mark.parametrize("case", [case for case in ONE_EACH if case in DOUBLE], ids=lambda case: case.trace)
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
@pytest.mark.parametrize("case", [case for case in DOUBLE if case.pack is CIFAR], ids=lambda case: case.trace)
def test_predictions_in_double_precision_equal_the_official_ones(case: Case) -> None:
    check(case, "cor", WHOLE, samples=5 * case.batch_size)


@pytest.mark.slow
@needs_whole_traces
@pytest.mark.parametrize("stream", STREAMS)
@pytest.mark.parametrize("case", [case for case in DOUBLE if case.pack is not CIFAR], ids=lambda case: case.trace)
def test_all_predictions_and_states_without_batch_norm_equal_the_official_ones(case: Case, stream: str) -> None:
    check(case, stream, WHOLE)


def test_a_comparison_fails_where_the_method_differs() -> None:
    (case,) = (case for case in CASES if case.trace == "neo")
    other = replace(case, options={"centre_momentum": 0.1})
    assert not compare(other, "iid", SHIPPED, samples=2 * case.batch_size).passed


def test_every_recipe_has_a_trace() -> None:
    traced = {case.recipe for case in CASES}
    missing = set(recipe_names()) - traced - NEW_WITHOUT_TRACE
    assert not missing, f"record a trace of {missing} in holdfast/conformance, or add the names to NEW_WITHOUT_TRACE"
    assert traced == set(recipe_names()) - NEW_WITHOUT_TRACE
