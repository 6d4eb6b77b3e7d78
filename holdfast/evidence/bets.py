"""Bets on sums: how far expectations can be from predictions of them, at all times at once."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["SumBets"]

RUINED = -1e9  # logarithm of the wealth of a stake that is bet no more
STEPS = 50  # Newton's method converges from one side; it takes 5 to 10


class SumBets:
    """Bound S = Σ (expected value − centre) from deviations = observed values − centres, in both directions.

    For a stake λ, Π (1 + λ · deviation) / (1 + λ · expected deviation) is a martingale, and the denominator is at most
    exp(λ · S). So the average over stakes of Π (1 + λ · deviation) · exp(−λ · S) ever exceeds 2 / (1 − confidence)
    with probability (1 − confidence) / 2 at most, which bounds S from below; the same with −λ bounds it from above.
    Centres must be chosen before their observations; the expectations may be anything.
    """

    def __init__(self, *, largest: float, stakes: int) -> None:
        self._stakes = np.array([largest / 2**halved for halved in range(stakes)], np.float64)
        self._up, self._down = _Side(stakes), _Side(stakes)

    @property
    def state(self) -> dict[str, list[float]]:
        """The logarithms of the wealth of each stake, as a new dictionary; assign an earlier one to return to it."""
        return {"up": self._up.logs.tolist(), "down": self._down.logs.tolist()}

    @state.setter
    def state(self, earlier: Mapping[str, Sequence[float]]) -> None:
        if {name: len(logs) for name, logs in earlier.items()} != dict.fromkeys(("up", "down"), len(self._stakes)):
            raise ValueError(f"the state of bets has {len(self._stakes)} numbers for up and for down, got {earlier}")
        for side, logs in ((self._up, earlier["up"]), (self._down, earlier["down"])):
            side.logs = np.array(logs, np.float64)
            side.ruined = int((side.logs == RUINED).sum())

    def allow(self, least: float, most: float) -> None:
        """Stop betting stakes that a deviation between `least` and `most` could ruin; call it before the outcome."""
        self._up.allow(self._stakes, least)
        self._down.allow(self._stakes, -most)

    def add(self, deviations: ArrayLike) -> None:
        """Add deviations of observed values from their centres, all within what was allowed."""
        self.add_between(deviations, deviations)

    def add_between(self, lowest: ArrayLike, highest: ArrayLike) -> None:
        """Add deviations that are not known, only between which values they are."""
        self._up.add(self._stakes, np.atleast_1d(np.asarray(lowest, np.float64)))
        self._down.add(self._stakes, -np.atleast_1d(np.asarray(highest, np.float64)))

    def bounds(self, confidence: float) -> tuple[float, float]:
        """Return between which values S lies."""
        needed = math.log(2 / (1 - confidence)) + math.log(len(self._stakes))
        stakes = self._stakes.tolist()
        return _least(self._up.logs.tolist(), stakes, needed), -_least(self._down.logs.tolist(), stakes, needed)


class _Side:
    """The logarithms of the wealth of bets in one direction, the largest stakes first."""

    def __init__(self, stakes: int) -> None:
        self.logs: NDArray[np.float64] = np.zeros(stakes)
        self.ruined = 0  # that many of the largest stakes are bet no more

    def allow(self, stakes: NDArray[np.float64], least: float) -> None:
        while self.ruined < len(stakes) and 1 + stakes[self.ruined] * least <= 0:
            self.logs[self.ruined] = RUINED
            self.ruined += 1

    def add(self, stakes: NDArray[np.float64], deviations: NDArray[np.float64]) -> None:
        self.logs[self.ruined :] += np.log1p(np.multiply.outer(deviations, stakes[self.ruined :])).sum(0)


def _least(logs: Sequence[float], stakes: Sequence[float], needed: float) -> float:
    """Return the S at which Σ exp(log − stake · S) = exp(needed), a decreasing and convex function of S."""
    found = max((log - needed) / stake for log, stake in zip(logs, stakes, strict=True))  # one term alone is enough
    for _ in range(STEPS):
        terms = [math.exp(log - needed - stake * found) for log, stake in zip(logs, stakes, strict=True)]
        step = math.log(sum(terms)) * sum(terms) / sum(term * stake for term, stake in zip(terms, stakes, strict=True))
        found += step
        if step <= 1e-12 * (1 + abs(found)):
            break
    return found
