"""Interpolate a coarse grid of measured accuracies, in logits, where the effects of corruptions nearly add up."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from holdfast.streams.walks.path import LEVELS

WHOLE = range(0, LEVELS, 4)  # the levels of whole severities


def interpolate_percent(
    whole_percent: NDArray[np.float64], chance_percent: float, pictures: int
) -> NDArray[np.float64]:
    """Return accuracies at all 21 × 21 levels from those at the 6 × 6 whole severities.

    Interpolation is bilinear in the logit of the accuracy above chance; accuracies closer to 0 or 1 than half an image
    of `pictures` are clipped.

    >>> flat = np.full((6, 6), 55.0)
    >>> np.allclose(interpolate_percent(flat, 10.0, 100), 55.0)
    True
    """
    least = 1 / (2 * pictures)
    above = (whole_percent - chance_percent) / (100 - chance_percent)
    above = np.clip(above, least, 1 - least)
    logits = np.log(above / (1 - above))
    weights = np.stack([np.interp(np.arange(LEVELS), WHOLE, row) for row in np.eye(len(WHOLE))], axis=1)  # (21, 6)
    dense = 1 / (1 + np.exp(-(weights @ logits @ weights.T)))
    percent: NDArray[np.float64] = chance_percent + (100 - chance_percent) * dense
    return percent
