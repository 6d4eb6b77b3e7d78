"""Check observations before they change anything."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["numbers_within"]


def numbers_within(values: ArrayLike, lowest: float, highest: float, what: str) -> NDArray[np.float64]:
    """Return numbers as a flat array, or raise a ValueError that names the first one out of range.

    >>> numbers_within(0.5, 0, 1, "a loss")
    array([0.5])
    """
    found = np.atleast_1d(np.asarray(values, np.float64))
    if found.ndim != 1:
        raise ValueError(f"{what} must be one number or a flat list, got an array of shape {found.shape}")
    outside = ~((found >= lowest) & (found <= highest))  # true of nan too
    if outside.any():
        raise ValueError(f"{what} must be between {lowest:g} and {highest:g}, got {found[outside][0]:g}")
    return found
