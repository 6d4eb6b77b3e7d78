"""From states to samples: every stratum, one class in one domain, yields its samples in turn, repeatedly."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from holdfast.streams.chains.chain import States
from holdfast.streams.plans.orders import Sorted

__all__ = ["deal", "turns"]


def turns(strata: NDArray[np.integer]) -> NDArray[np.int64]:
    """Return for each position how often its stratum has come before.

    >>> turns(np.array([3, 1, 3, 3, 1])).tolist()
    [0, 0, 1, 2, 1]
    """
    # numpy sorts small integers by radix, in linear time.
    strata = strata.astype(np.min_scalar_type(int(strata.max(initial=0))))
    order = np.argsort(strata, kind="stable")
    ordered = strata[order]
    firsts = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]])) if len(strata) else order
    found = np.empty(len(strata), np.int64)
    found[order] = np.arange(len(strata)) - np.repeat(firsts, np.diff(firsts, append=len(strata)))
    return found


def deal(
    domains: States, classes: States, turn: NDArray[np.int64], codes: NDArray[np.integer], rng: np.random.Generator
) -> NDArray[np.int32]:
    """Return the sample at each position: number `turn` of its stratum, which is shuffled once per domain.

    `codes` are the labels as states, 0 to the number of classes. A stratum that is used up starts again.
    """
    sizes = np.bincount(codes)
    firsts = sizes.cumsum() - sizes
    small = codes.astype(np.min_scalar_type(len(sizes)))
    decks = np.stack([Sorted().arrange(small, rng) for _ in range(int(domains.max(initial=0)) + 1)]).astype(np.int32)
    return decks[domains, firsts[classes] + turn % sizes[classes]]
