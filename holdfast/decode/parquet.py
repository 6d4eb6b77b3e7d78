"""Read columns of Parquet files, the format of data sets on Hugging Face."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from holdfast.machine.extras import extra


def parquet_rows(path: Path, *columns: str) -> Iterator[tuple[Any, ...]]:
    """Yield the values of these columns, row by row."""
    parquet = extra("parquet", "pyarrow.parquet", f"reading {path} needs")
    try:
        with parquet.ParquetFile(path) as file:
            missing = set(columns) - set(file.schema_arrow.names)
            table = file.read([] if missing else list(columns))
    except (ValueError, OSError) as error:  # Arrow's own are among them
        raise ValueError(f"{path} is not a readable Parquet file ({error}); download it again") from error
    if missing:
        raise ValueError(
            f"{path} has no column {' and no column '.join(sorted(missing))}; it needs {', '.join(columns)}"
        )
    return zip(*(table[column].to_pylist() for column in columns), strict=True)
