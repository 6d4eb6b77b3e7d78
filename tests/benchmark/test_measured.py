"""The benchmarks write their results as JSON with facts on the machine."""

from __future__ import annotations

import json
import runpy
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks"
MAKE_FILES = {"claims", "condense", "coverage", "guard", "measured", "serve"}  # write their own files
pytestmark = pytest.mark.skipif(not FOLDER.exists(), reason="the benchmarks are not beside the tests")


def test_a_result_names_the_machine(tmp_path: Path) -> None:
    made = runpy.run_path(str(FOLDER / "measured.py"))
    made["write"](None, {"tent": 2.5})
    assert list(tmp_path.iterdir()) == []
    made["write"](tmp_path / "measured.json", {"tent": 2.5})
    content = json.loads((tmp_path / "measured.json").read_text())
    assert content["measured"] == {"tent": 2.5}
    assert {"processor", "cores", "load", "torch", "commit", "measured_at"} <= content["machine"].keys()
    assert content["machine"]["processor"]


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.py")), ids=lambda path: path.stem)
def test_every_benchmark_writes_json(path: Path) -> None:
    if path.stem not in MAKE_FILES:
        assert "add_json(parser)" in path.read_text(), "add `--json FILE` with benchmarks/measured.py"
