"""Choose which samples are worth a label."""

from __future__ import annotations

from typing import cast

import numpy as np
from numpy.typing import NDArray

from holdfast.randomness import seeded_rng

DOUBT = 0.2  # how far the estimates are moved towards "anything is possible" before they decide on rates


def coins(seed: int, first: int, count: int) -> NDArray[np.float64]:
    """Return one uniform number for each sample from the `first` on; they depend on seed and sample alone.

    >>> bool((coins(0, 5, 3) == coins(0, 0, 8)[5:]).all())
    True
    """
    rng = seeded_rng(seed, "label")
    cast(np.random.Philox, rng.bit_generator).advance(first // 4)  # Philox makes four numbers at a time
    return rng.random(first % 4 + count)[first % 4 :]


def label_worth(
    right: NDArray[np.float64], source_right: NDArray[np.float64], differs: NDArray[np.bool_], gain_weight: float
) -> NDArray[np.float64]:
    """Return how uncertain the outcome of each sample is: the best sampling rates are proportional to it.

    The standard deviation of "the served prediction is right" and, where it differs from that of the source, of the
    difference between the two, joined by `gain_weight` (Neyman's allocation). Estimates are doubted: a label of a
    sample that is certainly right is worth something, for it may show that the certainty is wrong.

    >>> label_worth(np.array([0.5, 1.0]), np.array([0.5, 1.0]), np.array([False, False]), 0.0).round(2).tolist()
    [0.5, 0.3]
    """
    sure, source_sure = (1 - DOUBT) * right + DOUBT / 2, (1 - DOUBT) * source_right + DOUBT / 3
    gain = np.where(differs, sure + source_sure - (sure - source_sure) ** 2, 0.0)
    worth: NDArray[np.float64] = np.sqrt((1 - gain_weight) * sure * (1 - sure) + gain_weight * gain)
    return worth
