"""A long table in pieces of equal length, each drawn on demand."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray


class Pieces:
    """Columns by position; `draw(index)` returns one piece, (rows, length), and the last two are kept.

    >>> tens = Pieces(lambda index: np.arange(10)[None] + 100 * index, 10)
    >>> tens.at(np.array([9, 10, 10**6])).tolist()
    [[9, 100, 10000000]]
    """

    def __init__(self, draw: Callable[[int], NDArray[np.integer]], length: int | None = None) -> None:
        self._draw = lru_cache(maxsize=2)(draw)
        self.length = self._draw(0).shape[1] if length is None else length

    def at(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the columns at these positions."""
        pieces, offsets = np.divmod(positions, self.length)
        indices = np.unique(pieces).tolist() or [0]
        if len(indices) == 1:
            return self._draw(indices[0])[:, offsets].astype(np.int64)
        values = np.empty((len(self._draw(indices[0])), len(positions)), np.int64)
        for index in indices:
            here = pieces == index
            values[:, here] = self._draw(index)[:, offsets[here]]
        return values
