"""Rows of all runs as one table, and as Parquet files with typed columns."""

from __future__ import annotations

import builtins
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from run_files import WriteRun, batches

import holdfast
from holdfast.decode.row_tables import compact
from holdfast.report import read_run
from holdfast.report.runs import Rows


@pytest.fixture
def folder(write_run: WriteRun) -> Path:
    estimate = {"value": 0.5, "low": None, "high": None, "unknown": None, "gain": None, "alarm": "too low"}
    details: dict[str, Any] = {"estimates": {"aetta": estimate}, "gauges": {"temperature": 1.5}, "expected": 0.25}
    return write_run("tent", batches({"fog": [1, 2], "snow": [3]}, **details))


def test_all_rows_below_a_folder_are_one_table(folder: Path) -> None:
    table = holdfast.results(folder.parent)
    assert table.num_rows == 3
    assert table["accuracy"].to_pylist() == [0.1, 0.2, 0.3]
    assert table["correct"].to_pylist() == [1, 2, 3]
    assert set(table["recipe"].to_pylist()) == {"tent"}
    assert [str(table.schema.field(name).type) for name in ("position", "loss", "recovered")] == [
        "int64",
        "double",
        "string",
    ]
    with pytest.raises(FileNotFoundError, match="found no manifest"):
        holdfast.results(folder.parent / "nothing")
    with pytest.raises(ValueError, match="must be one of arrow, pandas, polars, got 'numpy'"):
        holdfast.results(folder, "numpy")


def test_a_compacted_run_is_read_as_its_lines(folder: Path) -> None:
    before = read_run(folder).rows
    assert compact(folder) == folder / "rows.parquet"
    (folder / "rows.jsonl").unlink()
    after = read_run(folder).rows
    for field in fields(Rows):
        first, second = getattr(before, field.name), getattr(after, field.name)
        if isinstance(first, np.ndarray):
            assert np.array_equal(first, second, equal_nan=first.dtype.kind == "f")
    assert after.gauges["temperature"].tolist() == [1.5] * 3
    assert after.estimates["aetta"].value.tolist() == [0.5] * 3
    assert after.estimates["aetta"].alarm == ["too low"] * 3
    assert holdfast.results(folder)["accuracy"].to_pylist() == [0.1, 0.2, 0.3]


def test_without_pyarrow_the_lines_stay(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert compact(folder) is None
    assert (folder / "rows.jsonl").exists()
    with pytest.raises(builtins.ImportError, match=r'pip install "holdfast\[parquet\]"'):
        holdfast.results(folder)


def test_pandas_or_polars_if_they_are_there(folder: Path) -> None:
    polars = pytest.importorskip("polars")
    assert isinstance(holdfast.results(folder, "polars"), polars.DataFrame)
