"""Committed results: what the documents claim stands in them, with the protocol it was measured under."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest

RESULTS = Path(__file__).resolve().parents[2] / "results"

Runs: TypeAlias = "list[dict[str, Any]]"


@pytest.fixture(scope="session")
def committed() -> Callable[[str], Runs]:
    """Return how to read the runs of a committed result, each with its whole manifest."""
    if not RESULTS.exists():
        pytest.skip("the results are not beside the tests")

    def read(name: str) -> Runs:
        content = json.loads((RESULTS / name).read_text())
        for run in content["runs"]:
            run["manifest"] = {
                key: content["parts"].get(value, value) if isinstance(value, str) else value
                for key, value in run["manifest"].items()
            }
        runs: Runs = content["runs"]
        return runs

    return read
