"""From states to samples: every stratum, one class in one domain, yields its samples in turn, repeatedly."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from holdfast.streams.chains.chain import States
from holdfast.streams.plans.domains import Pools
from holdfast.streams.plans.orders import Sorted


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
    ranks = np.empty(len(strata), np.int64)
    ranks[order] = np.arange(len(strata)) - np.repeat(firsts, np.diff(firsts, append=len(strata)))
    return ranks


def deal(
    domains: States,
    classes: States,
    turn: NDArray[np.int64],
    codes: NDArray[np.integer],
    rng: np.random.Generator,
    pools: Pools | None = None,
) -> NDArray[np.int32]:
    """Return the sample at each position: number `turn` of its stratum, which is shuffled once per domain.

    `codes` are the labels as states, 0 to the number of classes. A stratum that is used up starts again. `pools` are
    the samples of each domain; by default every domain has all of them.
    """
    every = np.arange(len(codes))
    held = [every] * (int(domains.max(initial=0)) + 1) if pools is None else pools
    sizes = stratum_sizes(codes, held)  # (domains, classes)
    small = codes.astype(np.min_scalar_type(sizes.shape[1]))
    decks = np.concatenate([pool[Sorted().arrange(small[pool], rng)] for pool in held]).astype(np.int32)
    firsts = (sizes.cumsum() - sizes.ravel()).reshape(sizes.shape)
    return decks[firsts[domains, classes] + turn % sizes[domains, classes]]


def stratum_sizes(codes: NDArray[np.integer], pools: Pools) -> NDArray[np.int64]:
    """Return how many samples each stratum holds, (domains, classes).

    >>> stratum_sizes(np.array([0, 1, 1]), [np.arange(3), np.array([0, 2])]).tolist()
    [[1, 2], [1, 1]]
    """
    classes = int(codes.max(initial=0)) + 1
    return np.stack([np.bincount(codes[pool], minlength=classes) for pool in pools])
