"""Parquet files, as data sets lie on Hugging Face: chosen columns, row by row."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

__all__ = ["parquet_rows"]


def parquet_rows(path: Path, *columns: str) -> Iterator[tuple[Any, ...]]:
    """Yield these columns of a Parquet file, row by row."""
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
        raise ValueError(f"{path} has no {' and no '.join(sorted(missing))}; save it with {', '.join(columns)}")
    return zip(*(table[column].to_pylist() for column in columns), strict=True)
