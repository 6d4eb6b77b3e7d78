"""Synthetic files of a run, with known accuracies."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

Row = dict[str, Any]
WriteRun = Callable[..., Path]

PROTOCOL: dict[str, Any] = {
    "stream": "5f3a",
    "protocol": "online",
    "epochs": None,
    "seed": 0,
    "model": "digits_resnet",
    "weights": "90ab",
    "preprocessing": "uint8 / 255, float32, NCHW",
    "batch_size": 10,
    "order": "predicts before its update",
    "recovery": "none",
    "source_data": "none",
    "metric": "accuracy, every sample weighs the same",
    "threads": 1,
    "versions": {"holdfast": "0.1.0", "python": "3.11.7", "torch": "2.13.0", "numpy": "2.4.6"},
}


def estimate(value: float | None, **fields: Any) -> dict[str, Any]:
    """An estimate as rows hold it."""
    return {"value": value, "low": None, "high": None, "unknown": None, "gain": None, **fields}


def row(position: int, domains: Mapping[str, tuple[int, int]], **changes: Any) -> Row:
    """One batch: `domains` is name -> (correct, samples)."""
    correct, size = (sum(counts) for counts in zip(*domains.values(), strict=True))
    return {
        "position": position,
        "size": size,
        "domains": {name: list(counts) for name, counts in domains.items()},
        "accuracy": correct / size,
        "confidence": 0.8,
        "entropy": 0.5,
        "loss": None,
        "estimates": {},
        "recovered": None,
        "skipped": None,
        "forwards": 1.0,
        "backwards": 0.0,
        "step_seconds": 0.01,
        **changes,
    }


def batches(corrects: Mapping[str, Iterable[int]], size: int = 10, **changes: Any) -> list[Row]:
    """Batches of one domain each, one after the other: name -> correct predictions of each batch."""
    rows: list[Row] = []
    for name, counts in corrects.items():
        for correct in counts:
            rows.append(row(size * len(rows), {name: (correct, size)}, **changes))
    return rows
