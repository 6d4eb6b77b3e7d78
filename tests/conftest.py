"""Run each test process on one thread: processes share the cores, and results do not depend on the sum order."""

from __future__ import annotations

import gc
import json
import os
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")  # for the processes that tests start

import pytest
import torch

torch.set_num_threads(1)  # test processes share the cores, and sums in one order give one result

HERE = Path(__file__).resolve().parent
GOLDEN = {"shipped": HERE / "golden", "whole": HERE.parents[1] / "shared" / "golden"}
FOLDERS = ["shipped", *([pytest.param("whole", marks=pytest.mark.slow)] if GOLDEN["whole"].is_dir() else [])]

MISSING = [name for name in ("fastapi", "httpx", "uvicorn", "prometheus_client") if find_spec(name) is None]
collect_ignore = ["serve"] if MISSING else []  # their fixtures need all of these


def pytest_report_header() -> str | None:
    """Say what is left out without the extra `serve`."""
    return (
        f"tests/serve is left out without {', '.join(MISSING)}: pip install 'holdfast[serve]' httpx"
        if MISSING
        else None
    )


def pytest_collection_finish() -> None:
    """Leave all that is imported and collected out of later garbage collections, which would read it every time."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session", params=FOLDERS)
def golden_folder(request: pytest.FixtureRequest) -> Path:
    """Return the shipped golden folder and, in slow tests where it lies beside the repository, the whole one."""
    return GOLDEN[request.param]


@pytest.fixture(autouse=True)
def _seed() -> None:
    """Start each test from one seed: what it draws does not depend on the tests that ran before it."""
    torch.manual_seed(0)


@pytest.fixture
def recorded(request: pytest.FixtureRequest) -> Callable[[object], None]:
    """Return a check that what a test has made equals what lies in the JSON file beside the test, but for rounding.

    With `HOLDFAST_RECORD=1` the file is written anew: read the difference before you commit it.
    """
    path, name = request.path.with_suffix(".json"), request.node.name

    def check(made: object) -> None:
        known = json.loads(path.read_text()) if path.exists() else {}
        if os.environ.get("HOLDFAST_RECORD"):
            lines = (f"{json.dumps(key)}: {json.dumps(value)}" for key, value in sorted({**known, name: made}.items()))
            path.write_text("{\n" + ",\n".join(lines) + "\n}\n")
        else:
            assert_close(made, known[name], name)

    return check


def assert_close(made: object, known: object, where: str) -> None:
    """Compare nested lists and dicts; numbers may differ by the rounding of another processor."""
    if isinstance(known, dict):
        assert isinstance(made, dict), where
        assert sorted(made) == sorted(known), where
        for key in known:
            assert_close(made[key], known[key], f"{where}, {key}")
    elif isinstance(known, list):
        assert isinstance(made, (list, tuple)), where
        assert len(made) == len(known), where
        for index, (one, other) in enumerate(zip(made, known, strict=True)):
            assert_close(one, other, f"{where}, {index}")
    elif isinstance(known, float):
        assert made == pytest.approx(known, rel=1e-4, abs=1e-5, nan_ok=True), where
    else:
        assert made == known, where
