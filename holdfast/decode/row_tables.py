"""Rows of runs as typed tables: Parquet files that DuckDB, pandas and Polars read as they are."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from holdfast.machine.extras import extra
from holdfast.machine.folders import write_whole

IDENTITY = ("suite", "job", "recipe", "model", "stream")  # columns of text, besides the seed
INTEGERS = ("position", "size")
FLOATS = (
    *("accuracy", "confidence", "entropy", "loss", "expected", "forwards", "backwards", "estimating", "step_seconds"),
)
TEXTS = ("recovered", "skipped")


def identity_of(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Return the columns that say which run a row belongs to.

    >>> parts = {"recipe": {"label": "tent"}, "model": {"name": "resnet"}, "stream": {"label": "ccc"}, "seed": 3}
    >>> identity_of({"suite": "demo", "job": "tent-ccc", **parts})["recipe"]
    'tent'
    """
    return {
        "suite": manifest["suite"],
        "job": manifest["job"],
        "recipe": manifest["recipe"]["label"],
        "model": manifest["model"]["name"],
        "stream": manifest["stream"]["label"],
        "seed": manifest["seed"],
    }


def table_of(rows: Sequence[Mapping[str, Any]], identity: Mapping[str, Any]) -> Any:
    """Return rows as an Arrow table with typed columns, one line for each batch."""
    pa = _arrow()
    schema = _schema(pa)
    columns: dict[str, Any] = {name: [identity[name]] * len(rows) for name in (*IDENTITY, "seed")}
    for name in (*INTEGERS, *FLOATS, *TEXTS):
        columns[name] = [row.get(name) for row in rows]
    columns["domains"] = [
        [{"name": name, "correct": entry[0], "samples": entry[1]} for name, entry in row["domains"].items()]
        for row in rows
    ]
    columns["correct"] = [sum(entry[0] for entry in row["domains"].values()) for row in rows]
    columns["estimates"] = [[{"name": name, **entry} for name, entry in row["estimates"].items()] for row in rows]
    columns["gauges"] = [[{"name": n, "value": value} for n, value in row.get("gauges", {}).items()] for row in rows]
    return pa.table({name: pa.array(columns[name], schema.field(name).type) for name in schema.names}, schema)


def compact(folder: Path) -> Path | None:
    """Write `rows.parquet` beside the rows of a finished run; None without pyarrow, then the JSON lines are all."""
    manifest = json.loads((folder / "manifest.json").read_text())
    rows = [json.loads(line) for line in (folder / "rows.jsonl").read_text().splitlines()]
    try:
        table = table_of(rows, identity_of(manifest))
    except ImportError:
        return None
    content = io.BytesIO()
    _arrow("pyarrow.parquet").write_table(table, content)
    write_whole(folder / "rows.parquet", content.getvalue())
    return folder / "rows.parquet"


def read_compact(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the rows of a Parquet file as their JSON lines held them."""
    for row in _arrow("pyarrow.parquet").ParquetFile(path).read().to_pylist():
        kept = {name: row.get(name) for name in (*INTEGERS, *FLOATS, *TEXTS)}
        yield {
            **kept,
            "domains": {entry["name"]: [entry["correct"], entry["samples"]] for entry in row["domains"]},
            "estimates": {entry.pop("name"): entry for entry in row["estimates"]},
            "gauges": {entry["name"]: entry["value"] for entry in row["gauges"]},
        }


def _schema(pa: Any) -> Any:
    named = pa.field("name", pa.string())
    count = [pa.field(name, pa.int32()) for name in ("correct", "samples")]
    floats = [pa.field(name, pa.float64()) for name in ("value", "low", "high", "gain")]
    texts = [pa.field(name, pa.string()) for name in ("unknown", "alarm")]
    return pa.schema(
        [
            *((name, pa.string()) for name in IDENTITY),
            ("seed", pa.int64()),
            *((name, pa.int64()) for name in INTEGERS),
            ("correct", pa.int64()),
            *((name, pa.float64()) for name in FLOATS),
            *((name, pa.string()) for name in TEXTS),
            ("domains", pa.list_(pa.struct([named, *count]))),
            ("estimates", pa.list_(pa.struct([named, *floats, *texts]))),
            ("gauges", pa.list_(pa.struct([named, floats[0]]))),
        ]
    )


def _arrow(module: str = "pyarrow") -> Any:
    return extra("parquet", module, "tables of rows need")
