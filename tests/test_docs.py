"""The pages of the methods are up to date with their classes."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from holdfast.methods import METHODS

BUILD = Path(__file__).resolve().parents[1] / "docs" / "build.py"
pytestmark = pytest.mark.skipif(not BUILD.exists(), reason="the documents are not beside the tests")


def test_pages_are_up_to_date() -> None:
    pages = runpy.run_path(str(BUILD))["pages"]()
    stale = [path.name for path, content in pages.items() if not path.exists() or path.read_text() != content]
    assert not stale, "run python docs/build.py"
    assert {path.name for path in (BUILD.parent / "methods").iterdir()} == {path.name for path in pages}


@pytest.mark.parametrize("name", METHODS.names())
def test_every_method_says_when_to_use_it_and_when_it_fails(name: str) -> None:
    kind = METHODS[name]
    assert kind.use_when
    assert kind.fails_when
    assert kind.passes
    assert kind.citation or name == "source"
