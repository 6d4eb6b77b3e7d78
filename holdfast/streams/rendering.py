"""From picks to pixels and waveforms: the corruptions of each sample's domain, one after the other."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.corruptions import Corruption
from holdfast.records import Domain, Picks

__all__ = ["corrupted"]


def corrupted(
    samples: NDArray[Any],
    picks: Picks,
    domains: Sequence[Domain],
    corruption_of: Callable[[str], Corruption],
    rng_of: Callable[[str, int], np.random.Generator],
    **known: Any,
) -> NDArray[Any]:
    """Return the samples after the corruptions of their domains, each by its name.

    `rng_of(purpose, row)` gives each sample its draws. What is `known` of them goes on to the corruptions: the family
    of images, the sample rate of sounds.
    """
    samples = np.array(samples)  # the data keeps its own
    for stage in range(picks.severities.shape[1]):
        for (name, again, severity), rows in _groups(picks, domains, stage).items():
            # Twice the same corruption in one domain must not meet twice the same draws.
            purpose = name if not again else f"{name} again {again}"
            rngs = [rng_of(purpose, row) for row in rows]
            samples[rows] = corruption_of(name).batch(samples[rows], severity, rngs, **known)
    return samples


def _groups(picks: Picks, domains: Sequence[Domain], stage: int) -> dict[tuple[str, int, float], list[int]]:
    """Return the rows that meet the same corruption at the same severity at this stage of their domains."""
    groups: dict[tuple[str, int, float], list[int]] = defaultdict(list)
    for row, (domain, severity) in enumerate(zip(picks.domains, picks.severities[:, stage], strict=True)):
        if severity > 0:
            corruptions = domains[domain].corruptions
            name = corruptions[stage]
            groups[name, corruptions[:stage].count(name), float(severity)].append(row)
    return groups
