"""The check of words that readers trip over finds them in text, and not in code."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "docs" / "prose.py"
pytestmark = pytest.mark.skipif(not SCRIPT.exists(), reason="the documents are not beside the tests")


@pytest.fixture
def check(tmp_path: Path) -> dict[str, Any]:
    made = runpy.run_path(str(SCRIPT))
    made["findings"].__globals__["ROOT"] = tmp_path
    (tmp_path / "docs").mkdir()
    (tmp_path / "holdfast").mkdir()
    for name in ("README.md", "CHANGELOG.md"):
        (tmp_path / name).write_text("Plain words.\n")
    return made


def test_a_word_is_found_in_a_page_with_its_line(check: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "docs" / "page.md").write_text("# Page\n\nIt costs 1.16 (limit 1.35), which nobody noticed.\n")
    lines = list(check["findings"]())
    assert [line.split(": ")[0] for line in lines] == ["docs/page.md:3"] * 2
    assert "'nobody'" in lines[1]


def test_code_and_links_are_left_out(check: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "docs" / "page.md").write_text("`nobody` [a](nobody.md)\n\n```python\nnobody = 1\n```\n\n    nobody\n")
    assert list(check["findings"]()) == []


def test_docstrings_are_read_and_may_name_the_code(check: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "holdfast" / "module.py").write_text('"""Nobody waits.\n\nIt judges.\n"""\n\nNAME = "nobody"\n')
    assert [line.split(": ")[:2] for line in check["findings"]()] == [["holdfast/module.py:1", "'Nobody'"]]
