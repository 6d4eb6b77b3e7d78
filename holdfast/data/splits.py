"""Splits for data sets that are published without one."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

import numpy as np
from numpy.typing import NDArray


def split_by_label(
    labels: Sequence[str] | NDArray[np.str_], *, test_share: float = 0.3, seed: int = 123456
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return training and test rows with the same share of every label, labels in alphabetical order.

    With the defaults this is the split of ReefSet in DHAuDS (Shao et al., arXiv 2511.18421), row for row: every label
    is shuffled by the same legacy seed, so the rows do not depend on the version of scikit-learn.

    >>> train, test = split_by_label(["wave"] * 7 + ["boat"] * 3)
    >>> train.tolist(), test.tolist()
    ([7, 8, 6, 5, 2, 1], [9, 4, 3, 0])
    """
    train, test = [], []
    for label in np.unique(labels):
        rows = np.flatnonzero(np.asarray(labels) == label)
        shuffled = rows[np.random.RandomState(seed).permutation(len(rows))]
        count = ceil(test_share * len(rows))
        test.append(shuffled[:count])
        train.append(shuffled[count:])
    return np.concatenate(train), np.concatenate(test)
