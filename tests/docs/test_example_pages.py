"""The programs in examples/ run, and their pages show them."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

from holdfast.models import MODELS

EXAMPLES = Path(__file__).resolve().parents[2] / "docs" / "examples.py"
pytestmark = pytest.mark.skipif(not EXAMPLES.exists(), reason="the documents are not beside the tests")


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("first_adaptation", marks=pytest.mark.slow),  # the tutorial of this name runs in the default tests
        "your_own_model",
        pytest.param("benchmark", marks=pytest.mark.slow),
    ],
)
def test_an_example_runs_and_its_page_is_up_to_date(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    try:
        made = runpy.run_path(str(EXAMPLES))["page"](name)
    finally:
        MODELS.discard("mine")
    written = (EXAMPLES.parent / "examples" / f"{name}.md").read_text()
    assert without_output(made) == without_output(written), "run python docs/examples.py"
    assert made.count("```text") == written.count("```text")


def without_output(page: str) -> str:
    """Return a page without what its cells print: the last digit differs between machines."""
    return re.sub(r"```text\n.*?```", "", page, flags=re.DOTALL)
