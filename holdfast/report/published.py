"""Published numbers, for runs of the same suite with the paper's network and length."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from functools import lru_cache
from importlib import resources

from holdfast.report.runs import RunRecord

__all__ = ["published", "published_on", "published_rows"]


def published_on(stream: str, runs: Sequence[RunRecord], measure: str) -> dict[str, float]:
    """Return recipe -> value on one stream, by its label."""
    return {recipe: value for (recipe, column), value in published(runs, measure).items() if column == stream}


def published(runs: Sequence[RunRecord], measure: str) -> dict[tuple[str, str], float]:
    """Return (recipe, column) -> value, in % or points, of a measure; empty unless the runs match the paper's.

    Measures are `accuracy`, `mae:` with an estimator (mean absolute error) and `gain:` with a recovery.
    """
    return {
        (row["recipe"], row["column"]): float(row["value"])
        for row in published_rows()
        if row["measure"] == measure and all(_is_like(run, row) for run in runs)
    }


@lru_cache
def published_rows() -> Sequence[Mapping[str, str]]:
    """Return the published numbers, one mapping for each."""
    text = (resources.files("holdfast.report") / "published.csv").read_text(encoding="utf-8")
    return list(csv.DictReader(io.StringIO(text)))


def _is_like(run: RunRecord, row: Mapping[str, str]) -> bool:
    """Return whether a run matches the suite, or a part of it, the network and the length of a published number.

    A stream that ends by the official rules of UniTTA has the length that it should, unless it was cut short.
    """
    manifest = run.manifest
    per_cell = manifest.stream.spec.get("plan", {}).get("samples_per_cell")
    return (
        f"{manifest.suite}-".startswith(f"{row['suite']}-")
        and int(row["parameters"]) == manifest.model.parameters
        and int(row["samples"] or 0) <= run.samples
        and row["samples_per_cell"] == str(per_cell or "")
        and (per_cell is None or manifest.protocol.get("samples") is None)
    )
