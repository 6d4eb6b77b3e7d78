"""Reflect positions beyond the border."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def reflect(indices: NDArray[np.intp], length: int, *, repeat_border: bool) -> NDArray[np.intp]:
    """Return positions on an axis, reflected into 0 .. length - 1.

    >>> reflect(np.arange(-3, 6), 4, repeat_border=False).tolist()
    [3, 2, 1, 0, 1, 2, 3, 2, 1]
    >>> reflect(np.arange(-3, 6), 4, repeat_border=True).tolist()
    [2, 1, 0, 0, 1, 2, 3, 3, 2]
    """
    period = max(2 * (length - 1 + repeat_border), 1)
    folded = indices % period
    inside: NDArray[np.intp] = np.minimum(folded, period - repeat_border - folded)
    return inside
