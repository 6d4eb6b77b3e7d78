"""The examples of docs/evidence.md run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).resolve().parents[2] / "docs" / "evidence.md"


@pytest.mark.skipif(not PAGE.exists(), reason="the documents are not beside the tests")
def test_the_examples_run(capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, object] = {}
    for block in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL):
        exec(block, names)
    printed = capsys.readouterr().out
    assert "0.750 [0.669, 0.820] over 400 samples" in printed
    assert "worse than the source" not in printed
