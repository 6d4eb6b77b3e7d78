"""docs/claims.md is what the committed results say."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def test_the_page_is_generated_from_the_committed_results() -> None:
    if not (ROOT / "results").exists():
        pytest.skip("the results are not beside the tests")
    place = importlib.util.spec_from_file_location("claims", ROOT / "benchmarks" / "claims.py")
    assert place is not None
    assert place.loader is not None
    claims = importlib.util.module_from_spec(place)
    sys.modules["claims"] = claims  # dataclasses look their module up
    place.loader.exec_module(claims)
    page = claims.page()
    assert (ROOT / "docs" / "claims.md").read_text(encoding="utf-8") == page, "run python benchmarks/claims.py"
    assert page.count("| holds |") >= 8
    assert " 0 of 0 " not in page
    for line in page.splitlines():
        for word in line.split("`"):
            if word.startswith(("results/", "tests/results/")):
                assert (ROOT / word).is_file()
