"""Every method against its recorded traces.

The whole traces lie beside the repository (`shared/golden`) and are not shipped; `tests/conformance/golden` holds their
first batches.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.conformance import CASES, STREAMS, Case, judge

SHIPPED = Path(__file__).parent / "golden"
WHOLE = Path(__file__).resolve().parents[3] / "shared" / "golden"
GOLDEN = WHOLE if (WHOLE / "traces").is_dir() else SHIPPED


@pytest.mark.skipif(not (GOLDEN / "traces").is_dir(), reason="there are no golden traces on this machine")
@pytest.mark.parametrize("stream", STREAMS)
@pytest.mark.parametrize(
    "case", [pytest.param(case, id=case.trace, marks=pytest.mark.slow if case.twin else ()) for case in CASES]
)
def test_answers_and_states_are_those_of_the_official_code(case: Case, stream: str) -> None:
    if not (GOLDEN / "traces" / f"{case.trace}.json").exists():
        pytest.skip("this trace is not in the shipped selection")
    verdict = judge(case, stream, GOLDEN)
    assert verdict.passed, f"differs by {verdict.difference:.2g}, allowed {verdict.tolerance:.2g}; {verdict.note}"
