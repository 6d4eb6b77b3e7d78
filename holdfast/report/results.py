"""All rows below a folder as one table, for pandas, Polars or Arrow."""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, get_args

from holdfast.decode.row_tables import identity_of, read_compact, table_of
from holdfast.report.runs import run_folders

Kind = Literal["arrow", "pandas", "polars"]


def results(folder: str | Path, kind: Kind = "arrow") -> Any:
    """Return the rows of every run below a folder as a table: one line for each batch, with the run it belongs to.

    Columns are suite, job, recipe, model, stream and seed, then those of a row; domains, estimates and gauges are lists
    of records. Finished and unfinished runs are read alike. Needs the extra `parquet`, and pandas or Polars for those.

    Args:
        folder: of one run, of a suite, or above several.
        kind: "arrow", "pandas" or "polars".
    """
    if kind not in get_args(Kind):
        raise ValueError(f"kind must be one of {', '.join(get_args(Kind))}, got {kind!r}")
    tables = [_run_table(run_folder) for run_folder in run_folders(Path(folder))]
    if not tables:
        raise FileNotFoundError(f"no runs in {folder}: found no manifest.json; pass the folder that a suite wrote to")
    table = import_module("pyarrow").concat_tables(tables)
    if kind == "polars":
        return import_module("polars").from_arrow(table)
    return table.to_pandas() if kind == "pandas" else table


def _run_table(folder: Path) -> Any:
    identity = identity_of(json.loads((folder / "manifest.json").read_text()))
    lines = folder / "rows.jsonl"
    if not lines.exists() and (folder / "rows.parquet").exists():
        return table_of(list(read_compact(folder / "rows.parquet")), identity)
    text = lines.read_text().split("\n")[:-1] if lines.exists() else []  # the last line may be incomplete
    return table_of([json.loads(line) for line in text], identity)
