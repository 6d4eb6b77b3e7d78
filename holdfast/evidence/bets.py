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
        self._up, self._down = np.zeros(stakes), np.zeros(stakes)

    @property
    def state(self) -> dict[str, float]:
        """The logarithms of the wealth of each stake, as a new dictionary; assign an earlier one to return to it."""
        sides = (("up", self._up), ("down", self._down))
        return {f"{side}_{index}": value for side, logs in sides for index, value in enumerate(logs.tolist())}

    @state.setter
    def state(self, earlier: Mapping[str, float]) -> None:
        if earlier.keys() != self.state.keys():
            raise ValueError(f"the state of {len(self._stakes)} stakes has {sorted(self.state)}, got {sorted(earlier)}")
        self._up, self._down = (
            np.array([earlier[f"{side}_{index}"] for index in range(len(self._stakes))]) for side in ("up", "down")
        )

    def allow(self, least: float, most: float) -> None:
        """Stop betting stakes that a deviation between `least` and `most` could ruin; call it before the outcome."""
        self._up = np.where(1 + self._stakes * least > 0, self._up, RUINED)
        self._down = np.where(1 - self._stakes * most > 0, self._down, RUINED)

    def add(self, deviations: ArrayLike) -> None:
        """Add deviations of observed values from their centres, which `allow` has covered."""
        found = np.asarray(deviations, np.float64)
        self._up, self._down = self._bet(self._up, found), self._bet(self._down, -found)

    def bounds(self, confidence: float) -> tuple[float, float]:
        """Return between which values S lies."""
        needed = math.log(2 / (1 - confidence)) + math.log(len(self._stakes))
        stakes = self._stakes.tolist()
        return _least(self._up.tolist(), stakes, needed), -_least(self._down.tolist(), stakes, needed)

    def _bet(self, logs: NDArray[np.float64], deviations: NDArray[np.float64]) -> NDArray[np.float64]:
        grown = np.array(logs)
        playing = logs > RUINED
        grown[playing] += np.log1p(np.multiply.outer(deviations, self._stakes[playing])).sum(0)
        return grown


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
