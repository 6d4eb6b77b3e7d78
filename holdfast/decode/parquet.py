"""Read columns of Parquet files, the format of data sets on Hugging Face."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any


def parquet_rows(path: Path, *columns: str) -> Iterator[tuple[Any, ...]]:
    """Yield the values of these columns, row by row."""
    try:
        from pyarrow import ArrowInvalid, parquet  # type: ignore[import-not-found,import-untyped,unused-ignore]
    except ImportError as error:
        raise RuntimeError(
            f"{path} is read with pyarrow, which is not installed: pip install 'holdfast[parquet]'"
        ) from error
    try:
        with parquet.ParquetFile(path) as file:
            missing = set(columns) - set(file.schema_arrow.names)
            table = file.read([] if missing else list(columns))
    except (ArrowInvalid, OSError) as error:
        raise ValueError(f"{path} is not a readable Parquet file ({error}); download it again") from error
    if missing:
        raise ValueError(
            f"{path} has no column {' and no column '.join(sorted(missing))}; it needs {', '.join(columns)}"
        )
    return zip(*(table[column].to_pylist() for column in columns), strict=True)
