"""Every page, table and figure that is generated is what `make pages` writes."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest

from holdfast.models import MODELS

PAGES = Path(__file__).resolve().parents[2] / "docs" / "pages.py"
pytestmark = pytest.mark.skipif(not PAGES.exists(), reason="the documents are not beside the tests")
SCRIPTS = (
    "promise_table",
    "measured_tables",
    "paper_sections",
    "coverage_table",
    "figures",
    "speed",
    "leaderboard",
    "build",
)


@pytest.fixture(scope="module")
def made() -> dict[str, Any]:
    return runpy.run_path(str(PAGES))


def test_no_script_is_forgotten(made: dict[str, Any]) -> None:
    assert made["SCRIPTS"] == (*SCRIPTS, "examples", "notebooks")


@pytest.mark.parametrize("script", SCRIPTS)
def test_the_pages_of_a_script_are_up_to_date(made: dict[str, Any], script: str) -> None:
    stale = [path.name for path, content in made["written_by"](script).items() if made["differ"](path, content)]
    assert not stale, "run `make pages`"


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("first_adaptation", marks=pytest.mark.slow),  # the tutorial of this name runs in the default tests
        "your_own_model",
        pytest.param("benchmark", marks=pytest.mark.slow),
    ],
)
def test_an_example_runs_and_its_page_is_up_to_date(
    made: dict[str, Any], name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    try:
        content = runpy.run_path(str(PAGES.with_name("examples.py")))["page"](name)
    finally:
        MODELS.discard("mine")
    assert not made["differ"](PAGES.parent / "examples" / f"{name}.md", content), "run `make pages`"


def test_a_page_that_is_missing_or_other_differs(made: dict[str, Any], tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    assert made["differ"](page, "text")
    page.write_text("text")
    assert not made["differ"](page, "text")
    assert made["differ"](page, "other")
