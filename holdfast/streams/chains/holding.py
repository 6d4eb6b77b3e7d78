"""How long a chain holds a state: four laws of the same mean, so that none of them changes the shares of the states."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

__all__ = ["HOLDINGS"]

CONCENTRATION = 0.1  # of the order `correlated`

Law = Callable[[NDArray[np.float64], np.random.Generator], NDArray[np.int64]]


def _geometric(means: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.int64]:
    return rng.geometric(1 / means)


def _fixed(means: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.int64]:
    return np.floor(means + rng.random(len(means))).astype(np.int64)  # a mean between two whole numbers takes both


def _uniform(means: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.int64]:
    longest = _fixed(2 * means - 1, rng)
    return rng.integers(1, longest, endpoint=True)


def _dirichlet(means: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.int64]:
    """Return what falls into the slots of a Dirichlet distribution: Poisson counts whose rates are gamma variables."""
    return 1 + rng.poisson(rng.gamma(CONCENTRATION, (means - 1) / CONCENTRATION))


# A chain with any but the first is semi-Markov: when it leaves a state depends on how long it has been there.
HOLDINGS: Mapping[str, Law] = {
    "geometric": _geometric,
    "fixed": _fixed,
    "uniform": _uniform,
    "dirichlet": _dirichlet,
}
