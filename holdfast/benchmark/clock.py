"""A virtual clock for streams that do not wait: the batches that pass while a recipe adapts to an earlier one.

The unit of time is one forward pass of the source over a batch (Alfarra et al., ICML 2024). The cost of a step is
counted in passes or given by a file of measured costs, never measured during the run, so that rows are reproducible.
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from statistics import median

from holdfast.records import Step

BACKWARD_PASSES = 2  # forward passes that a backward pass is worth


def passes_of(step: Step) -> float:
    """Return the cost of a step in forward passes for each sample.

    >>> import torch
    >>> passes_of(Step(torch.zeros(1, 2), forwards=1.0, backwards=1.0))  # TENT
    3.0
    """
    return step.forwards + BACKWARD_PASSES * step.backwards


def missed_batches(cost: float, speed: float) -> int:
    """Return how many batches pass before the next can be adapted to, after a step of this cost: ⌈cost · speed⌉ − 1.

    `speed` is the number of batches that arrive while the source predicts one.

    >>> [missed_batches(3.0, speed) for speed in (0.25, 0.5, 1, 2)], missed_batches(1.0, 1)
    ([0, 1, 2, 5], 0)
    """
    return max(0, math.ceil(round(cost * speed, 9)) - 1)  # 100 · 0.07 is a little more than 7


def read_costs(path: str | Path) -> dict[str, float]:
    """Return the cost of recipes by label: a JSON file, or the median step of each in a folder of runs.

    Runs of the protocol `online` are measured as multiples of the source on the same stream, network and batch size.
    """
    path = Path(path).expanduser()
    if path.is_dir():
        return _measured(path)
    try:
        costs = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise ValueError(f"costs cannot be read from {path} ({error}); write {{recipe: cost, …}} as JSON") from error
    if not isinstance(costs, Mapping):
        raise ValueError(f"costs in {path} must be a mapping of recipes to numbers, got {type(costs).__name__}")
    return {str(label): float(cost) for label, cost in costs.items()}


def _measured(folder: Path) -> dict[str, float]:
    seconds: dict[tuple[str, ...], dict[str, float]] = defaultdict(dict)  # by what runs have in common, by recipe
    for file in sorted(folder.rglob("manifest.json")):
        manifest, rows = json.loads(file.read_text()), file.with_name("rows.jsonl")
        if manifest["protocol"]["protocol"] == "online" and rows.is_file():
            steps = [json.loads(line)["step_seconds"] for line in rows.read_text().splitlines()]
            size, seed = str(manifest["protocol"]["batch_size"]), str(manifest["seed"])
            shared = manifest["stream"]["label"], manifest["model"]["name"], size, seed
            if steps:
                seconds[shared][manifest["recipe"]["label"]] = median(steps)
    ratios: dict[str, list[float]] = defaultdict(list)
    for measured in seconds.values():
        if "source" in measured:
            for label, each in measured.items():
                ratios[label].append(each / measured["source"])
    if not ratios:
        raise ValueError(f"{folder} has no online runs with the recipe source to measure by; run it first")
    return {label: round(median(values), 3) for label, values in ratios.items()}
