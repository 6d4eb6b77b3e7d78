"""Bets on sums: how far expectations can be from predictions of them, at all times at once."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from holdfast.state import Stateful

RUINED = -1e9  # logarithm of the wealth of a stake that is bet no more
STEPS = 50  # Newton's method converges from one side; it takes 5 to 10


class SumBets(Stateful):
    """Bound S = Σ (expected value − centre) from deviations = observed values − centres, in both directions.

    For a stake λ, Π (1 + λ · deviation) / (1 + λ · expected deviation) is a martingale, and the denominator is at most
    exp(λ · S). So the average over stakes of Π (1 + λ · deviation) · exp(−λ · S) ever exceeds 2 / (1 − confidence)
    with probability (1 − confidence) / 2 at most, which bounds S from below; the same with −λ bounds it from above.
    Centres must be chosen before their observations; the expectations may be anything.
    """

    up: list[float]
    down: list[float]

    def __init__(self, *, largest: float, stakes: int) -> None:
        super().__init__()
        self._stakes = np.array([largest / 2**halved for halved in range(stakes)], np.float64)
        self.add_state("up", [0.0] * stakes)  # logarithms of the wealth, the largest stakes first
        self.add_state("down", [0.0] * stakes)

    def allow(self, least: float, most: float) -> None:
        """Stop betting stakes that a deviation between `least` and `most` could ruin; call it before the outcome."""
        self.up, self.down = self._allowed(self.up, least), self._allowed(self.down, -most)

    def _allowed(self, logs: list[float], least: float) -> list[float]:
        ruined = logs.count(RUINED)
        while ruined < len(logs) and 1 + self._stakes[ruined] * least <= 0:
            ruined += 1
        return [RUINED] * ruined + logs[ruined:]

    def check_state(self) -> None:
        """Refuse wealth of other stakes."""
        if not len(self.up) == len(self.down) == len(self._stakes):
            raise ValueError(f"there are {len(self._stakes)} stakes, and wealth of {len(self.up)} and {len(self.down)}")

    def add(self, deviations: ArrayLike) -> None:
        """Add deviations of observed values from their centres, all within what was allowed."""
        self.add_between(deviations, deviations)

    def add_between(self, lowest: ArrayLike, highest: ArrayLike) -> None:
        """Add deviations that are not known, only between which values they are."""
        self.up = self._added(self.up, np.atleast_1d(np.asarray(lowest, np.float64)))
        self.down = self._added(self.down, -np.atleast_1d(np.asarray(highest, np.float64)))

    def _added(self, logs: list[float], deviations: NDArray[np.float64]) -> list[float]:
        ruined, wealth = logs.count(RUINED), np.array(logs, np.float64)
        wealth[ruined:] += np.log1p(np.multiply.outer(deviations, self._stakes[ruined:])).sum(0)
        added: list[float] = wealth.tolist()
        return added

    def bounds(self, confidence: float) -> tuple[float, float]:
        """Return between which values S lies."""
        needed = math.log(2 / (1 - confidence)) + math.log(len(self._stakes))
        stakes = self._stakes.tolist()
        return _least(self.up, stakes, needed), -_least(self.down, stakes, needed)


def _least(logs: Sequence[float], stakes: Sequence[float], needed: float) -> float:
    """Return the S at which Σ exp(log − stake · S) = exp(needed), a decreasing and convex function of S."""
    least = max((log - needed) / stake for log, stake in zip(logs, stakes, strict=True))  # one term alone is enough
    for _ in range(STEPS):
        terms = [math.exp(log - needed - stake * least) for log, stake in zip(logs, stakes, strict=True)]
        step = math.log(sum(terms)) * sum(terms) / sum(term * stake for term, stake in zip(terms, stakes, strict=True))
        least += step
        if step <= 1e-12 * (1 + abs(least)):
            break
    return least
