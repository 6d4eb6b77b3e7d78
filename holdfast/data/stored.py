"""Data sets that hold their corrupted samples: one array or folder for each corruption and severity."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from holdfast.data.base import Dataset
from holdfast.registry import UnknownNameError, nearest


@runtime_checkable
class StoredCorruptions(Protocol):
    """A data set whose corruptions are read instead of computed; all of them hold the same samples in one order."""

    stored: Sequence[str]  # names of the corruptions
    clean: Dataset | None  # the same samples without corruption, if they are there too

    def inputs(self, indices: NDArray[np.int64]) -> NDArray[Any]:
        """Return the clean samples at these indices; raise if there are none."""

    def corrupted(self, indices: NDArray[np.int64], corruption: str, severity: float) -> NDArray[Any]:
        """Return the samples at these indices as they are stored under a corruption at a severity."""


def check_stored(name: str, corruption: str, stored: Sequence[str]) -> None:
    """Raise if a set does not hold a corruption.

    >>> check_stored("cifar10_c", "foog", ["fog", "snow"])
    Traceback (most recent call last):
    holdfast.registry.UnknownNameError: cifar10_c does not hold the corruption 'foog'; did you mean 'fog'?
    """
    if corruption not in stored:
        raise UnknownNameError(f"{name} does not hold the corruption {corruption!r}; {nearest(corruption, stored)}")


def clean_of(name: str, clean: Dataset | None, labels: NDArray[np.int64]) -> Dataset:
    """Return the clean samples of a set, if they were given and are the same samples."""
    if clean is None:
        raise ValueError(f"{name} holds no clean samples; pass clean=, the folder of the original data set")
    if not np.array_equal(clean.labels, labels):
        raise ValueError(f"the samples of {clean.name} are not those of {name}: their labels differ; pass the test set")
    return clean
