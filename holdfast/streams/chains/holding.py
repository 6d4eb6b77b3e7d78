"""How long a chain stays in a state: four distributions of equal mean, so that the shares of the states agree."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

CONCENTRATION = 0.1  # of the order `correlated`

Law = Callable[[NDArray[np.float64], np.random.Generator], NDArray[np.int64]]


def _fixed(means: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.int64]:
    return np.floor(means + rng.random(len(means))).astype(np.int64)  # a fractional mean mixes its two neighbours


def _uniform(means: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.int64]:
    longest = _fixed(2 * means - 1, rng)
    return rng.integers(1, longest, endpoint=True)


def _dirichlet(means: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.int64]:
    """Return counts as in the slots of a Dirichlet distribution: Poisson counts with gamma-distributed rates."""
    return 1 + rng.poisson(rng.gamma(CONCENTRATION, (means - 1) / CONCENTRATION))


# All but the first make the chain semi-Markov: the probability of leaving depends on the time already spent.
HOLDINGS: Mapping[str, Law] = {
    "geometric": lambda means, rng: rng.geometric(1 / means),
    "fixed": _fixed,
    "uniform": _uniform,
    "dirichlet": _dirichlet,
}
