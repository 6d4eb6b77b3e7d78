"""From picks to stored samples: data that holds its corruptions is read, not corrupted."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.data import StoredCorruptions
from holdfast.data.stored import check_stored
from holdfast.records import Domain, Picks
from holdfast.streams.plans.plan import Plan
from holdfast.streams.rendering import Rendering


def check_rendering(rendering: Rendering, plan: Plan, data: StoredCorruptions) -> None:
    """Raise if a plan or a rendering asks for something that stored corruptions do not have."""
    name = getattr(data, "name", "the data set")
    if replace(rendering, seed=0) != Rendering():
        raise ValueError(
            f"the corruptions of {name} are stored and used unchanged; leave family, storage_jpeg_quality, draws and "
            "crop out"
        )
    for domain in plan.domains:
        if len(domain.corruptions) > 1:
            raise ValueError(f"{name} holds single corruptions, not {domain.name}; render them from the clean data")
        for corruption in domain.corruptions:
            check_stored(name, corruption, data.stored)


def read_stored(data: StoredCorruptions, picks: Picks, domains: Sequence[Domain]) -> NDArray[Any]:
    """Return the samples of these picks as they are stored; a severity of 0 is the clean sample."""
    groups: dict[tuple[str, float], list[int]] = defaultdict(list)
    for row, domain in enumerate(picks.domains):
        corruptions = domains[domain].corruptions
        severity = float(picks.severities[row, 0]) if corruptions else 0.0
        groups[(corruptions[0] if severity else "", severity)].append(row)
    inputs: NDArray[Any] | None = None
    for (corruption, severity), rows in groups.items():
        indices = picks.samples[rows]
        samples = data.corrupted(indices, corruption, severity) if corruption else data.inputs(indices)
        if inputs is None:
            inputs = np.empty((len(picks), *samples.shape[1:]), samples.dtype)
        inputs[rows] = samples
    return data.inputs(picks.samples) if inputs is None else inputs
