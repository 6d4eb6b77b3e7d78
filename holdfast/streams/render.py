"""From picks to pixels: the corruptions of each sample's domain, one after the other."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from holdfast.corruptions import CORRUPTIONS
from holdfast.records import Domain, Picks

__all__ = ["as_inputs", "corrupted"]


def corrupted(
    images: NDArray[np.uint8],
    picks: Picks,
    domains: Sequence[Domain],
    rng_of: Callable[[str, int], np.random.Generator],
    *,
    family: str | None = None,
) -> NDArray[np.uint8]:
    """Return the images after the corruptions of their domains; `rng_of(purpose, row)` gives each image its draws."""
    images = np.array(images)  # the data keeps its own
    for stage in range(picks.severities.shape[1]):
        for (name, again, severity), rows in _groups(picks, domains, stage).items():
            # Twice the same corruption in one domain must not meet twice the same draws.
            purpose = name if not again else f"{name} again {again}"
            rngs = [rng_of(purpose, row) for row in rows]
            images[rows] = CORRUPTIONS[name].batch(images[rows], severity, rngs, family=family)
    return images


def _groups(picks: Picks, domains: Sequence[Domain], stage: int) -> dict[tuple[str, int, float], list[int]]:
    """Return the rows that meet the same corruption at the same severity at this stage of their domains."""
    groups: dict[tuple[str, int, float], list[int]] = defaultdict(list)
    for row, (domain, severity) in enumerate(zip(picks.domains, picks.severities[:, stage], strict=True)):
        if severity > 0:
            corruptions = domains[domain].corruptions
            name = corruptions[stage]
            groups[name, corruptions[:stage].count(name), float(severity)].append(row)
    return groups


def as_inputs(images: NDArray[np.uint8]) -> torch.Tensor:
    """Return (n, height, width, 3) bytes as (n, 3, height, width) float32 in [0, 1]."""
    return torch.from_numpy(images).permute(0, 3, 1, 2).float().div(255).contiguous()
