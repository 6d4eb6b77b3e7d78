"""The Python of the page on connections runs as printed."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path

import pytest

PAGE = Path(__file__).resolve().parents[2] / "docs" / "connect.md"
NEEDS = {"mlflow": ("mlflow", "pandas", "sqlalchemy", "alembic"), "opentelemetry": ("opentelemetry.sdk",)}
pytestmark = [
    pytest.mark.skipif(not PAGE.exists(), reason="the documents are not beside the tests"),
    pytest.mark.filterwarnings("ignore"),  # of other libraries
]


def installed(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:
        return False


def test_the_python_of_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for block in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL):
        needed = [module for word, modules in NEEDS.items() if word in block for module in modules]
        if all(map(installed, needed)):
            exec(compile(block, PAGE.name, "exec", dont_inherit=True), names)
    assert names["same"] is True
    assert names["patient"].recipe["recovery_options"]["every_batches"] == 200  # type: ignore[attr-defined]
    assert names["follows"].method.referred  # type: ignore[attr-defined]
    assert "service" in names
