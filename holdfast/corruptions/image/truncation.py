"""Truncate levels that were computed in float32 exactly as the published float64 code truncates its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

Levels: TypeAlias = NDArray[np.uint8]  # whole levels, mostly of planes (n, height, width)

ROUNDING = 255 * 2.0**-24  # levels: the largest error of one float32 operation on values up to 1
MANY = 1 / 256  # share of doubtful values above which it pays to look for constant regions
MOST = 1 / 16  # share above which computing everything exactly is faster


@dataclass(frozen=True)
class Boxes:
    """The first and last row, and the first and last column, that the value of a pixel depends on."""

    top: NDArray[np.intp]  # by row
    bottom: NDArray[np.intp]
    left: NDArray[np.intp]  # by column
    right: NDArray[np.intp]

    def constant(self, planes: Levels, indices: NDArray[np.intp]) -> NDArray[np.bool_]:
        """Return whether the box of each place, a flat index of planes (n, height, width), has one level only."""
        count, height, width = planes.shape
        edges = np.zeros((count, height + 1, width + 1), np.int32)
        edges[:, 1:height, 1:] += planes[:, 1:] != planes[:, :-1]
        edges[:, 1:, 1:width] += planes[:, :, 1:] != planes[:, :, :-1]
        within = edges.cumsum(axis=2, out=edges).cumsum(axis=1, out=edges).reshape(-1)
        rest, x = np.divmod(indices, width)
        plane, y = np.divmod(rest, height)
        rows = [(plane * (height + 1) + line) * (width + 1) for line in (self.top[y], self.bottom[y] + 1)]
        columns = self.left[x], self.right[x] + 1
        (a, b), (c, d) = ([within.take(row + column) for column in columns] for row in rows)
        equal: NDArray[np.bool_] = (d - c) == (b - a)
        return equal


class Exact(Protocol):
    """The same levels in float64."""

    def at(self, indices: NDArray[np.intp]) -> Levels:
        """Return them at some indices, flat indices of the planes."""

    def everywhere(self) -> Levels:
        """Return all of them."""

    def constants(self) -> Levels:
        """Return them for 256 constant images, one of each level."""


def truncated(levels: NDArray[np.float32], error: float, planes: Levels, boxes: Boxes, exact: Exact) -> Levels:
    """Return levels computed from planes (n, height, width) as whole numbers; `error` bounds their float32 error.

    Only a level that close to a whole number may be truncated to another one, and is computed again.
    """
    off = np.rint(levels)
    off -= levels
    doubtful = np.flatnonzero(np.abs(off, out=off) <= error)
    doubtful = doubtful[levels.reshape(-1).take(doubtful) > 0.5]  # nothing is below zero
    whole = levels.astype(np.uint8)
    if len(doubtful) > MANY * levels.size:
        constant = boxes.constant(planes, doubtful)
        whole.reshape(-1)[doubtful[constant]] = exact.constants().take(planes.reshape(-1).take(doubtful[constant]))
        doubtful = doubtful[~constant]
    if len(doubtful) > MOST * levels.size:
        return exact.everywhere()
    whole.reshape(-1)[doubtful] = exact.at(doubtful)
    return whole
