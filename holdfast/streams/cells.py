"""From states to samples: every cell, a domain and a class, deals its own samples in turn and then again."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from holdfast.streams.chain import States
from holdfast.streams.orders import Sorted

__all__ = ["deal", "turns"]


def turns(cells: NDArray[np.integer]) -> NDArray[np.int64]:
    """Return for each position how often its cell has come before.

    >>> turns(np.array([3, 1, 3, 3, 1])).tolist()
    [0, 0, 1, 2, 1]
    """
    # Small integers are sorted by their digits, in linear time.
    cells = cells.astype(np.min_scalar_type(int(cells.max(initial=0))))
    order = np.argsort(cells, kind="stable")
    ordered = cells[order]
    firsts = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]])) if len(cells) else order
    found = np.empty(len(cells), np.int64)
    found[order] = np.arange(len(cells)) - np.repeat(firsts, np.diff(firsts, append=len(cells)))
    return found


def deal(
    domains: States, classes: States, turn: NDArray[np.int64], codes: NDArray[np.integer], rng: np.random.Generator
) -> NDArray[np.int32]:
    """Return the sample at each position: that of this turn among the cell's, which are shuffled once for each domain.

    `codes` are the labels as states, 0 to the number of classes. A cell that is used up begins again.
    """
    sizes = np.bincount(codes)
    firsts = sizes.cumsum() - sizes
    small = codes.astype(np.min_scalar_type(len(sizes)))
    decks = np.stack([Sorted().arrange(small, rng) for _ in range(int(domains.max(initial=0)) + 1)]).astype(np.int32)
    return decks[domains, firsts[classes] + turn % sizes[classes]]
