"""An alarm whose probability of ever being false is bounded, however often it is looked at."""

from __future__ import annotations

import math

from numpy.typing import ArrayLike

from holdfast.evidence.checks import numbers_within
from holdfast.state import Stateful

BOLDEST = 0.9  # of the stake that could lose all wealth in one observation
FIXED = (0.9, 0.3)  # stakes that need no past, as shares of the same
MEMORY = 0.02  # weight of the newest observation in the moments that set the third stake
START = {"seen": 0.0, "raised": 0.0, "fast": 0.0, "slow": 0.0, "fitted": 0.0, "mean": 0.0, "square": 0.25}


class LossAlarm(Stateful):
    """Raise an alarm when losses are larger than `tolerated`, with probability at most `level` if they never are.

    A stream is healthy when each loss, given all before it, has an expectation of at most `tolerated`. The alarm bets
    against that. Wealth is then a supermartingale, so it ever reaches 1 / `level` with probability at most `level`
    (Ville's inequality): at every stopping time, for any dependence between losses. A share of the wealth is kept
    back for every later start (a mixture over change points; Shin, Ramdas and Rinaldo, arXiv 2203.03532), so that a
    long healthy past delays a detection by its logarithm only. One third of each start bets by the recent moments
    (Waudby-Smith and Ramdas, JRSS-B 2024), two thirds bet fixed stakes.

    An alarm starts the test anew at the same level: k alarms on a healthy stream have probability `level` ** k at most.

    Args:
        level: largest probability that an alarm is ever false.
        tolerated: expected loss that is still healthy.
        lowest: smallest possible loss.
        highest: largest possible loss.

    >>> alarm = LossAlarm(level=0.01)
    >>> alarm.observe([0.0, -1.0, 1.0, 0.0] * 500)
    False
    >>> [alarm.observe(0.5) for _ in range(100)].index(True)
    41
    """

    numbers: dict[str, float]

    def __init__(
        self, *, level: float = 0.01, tolerated: float = 0.0, lowest: float = -1.0, highest: float = 1.0
    ) -> None:
        if not 0 < level < 1:
            raise ValueError(f"level must be between 0 and 1, got {level}")
        if not lowest < tolerated < highest:
            raise ValueError(f"tolerated must be between lowest {lowest} and highest {highest}, got {tolerated}")
        super().__init__()
        self.level, self.tolerated, self.lowest, self.highest = level, tolerated, lowest, highest
        self.add_state("numbers", dict(START))

    @property
    def seen(self) -> int:
        """The number of losses since the start or the last alarm."""
        return int(self.numbers["seen"])

    @property
    def raised(self) -> int:
        """The number of alarms so far."""
        return int(self.numbers["raised"])

    @property
    def evidence(self) -> float:
        """The e-value against a healthy stream: 1 at the start; the alarm is raised at 1 / `level`."""
        now = self.numbers
        return (now["fast"] + now["slow"] + now["fitted"]) / 3 + _kept_back(now["seen"])

    def check_state(self) -> None:
        """Refuse other numbers than those of an alarm."""
        if self.numbers.keys() != START.keys():
            raise ValueError(f"an alarm has {sorted(START)}, got {sorted(self.numbers)}")

    def observe(self, losses: ArrayLike) -> bool:
        """Add one loss, or several in order, and return whether any of them raises the alarm."""
        values = numbers_within(losses, self.lowest, self.highest, "a loss").tolist()
        now = dict(self.numbers)  # replaced at the end: an interrupted call changes nothing
        largest = 1 / (self.tolerated - self.lowest)  # a stake that one observation could ruin
        boldest, first, second = BOLDEST * largest, FIXED[0] * largest, FIXED[1] * largest
        seen, fast, slow, fitted = now["seen"], now["fast"], now["slow"], now["fitted"]
        mean, square, raised = now["mean"], now["square"], now["raised"]
        kept, goal = _kept_back(seen), 1 / self.level
        for value in values:
            excess = value - self.tolerated
            before, seen = kept, seen + 1
            kept = 1 / math.log(math.e + seen)  # the same again, without a call for each sample
            staked = before - kept  # the wealth that starts with this observation
            third = 0.0 if mean < 0 else boldest if mean > boldest * square else mean / square
            fast = (fast + staked) * (1 + first * excess)
            slow = (slow + staked) * (1 + second * excess)
            fitted = (fitted + staked) * (1 + third * excess)
            mean += MEMORY * (excess - mean)
            square += MEMORY * (excess * excess - square)
            if (fast + slow + fitted) / 3 + kept >= goal:
                seen, fast, slow, fitted, mean, square = [START[name] for name in _RESTARTED]
                kept, raised = _kept_back(seen), raised + 1
        alarmed = raised > now["raised"]
        self.numbers = dict(zip(START, (seen, raised, fast, slow, fitted, mean, square), strict=True))
        return alarmed


_RESTARTED = ("seen", "fast", "slow", "fitted", "mean", "square")


def _kept_back(seen: float) -> float:
    """Return the share of the initial wealth that is kept for later starts."""
    return 1 / math.log(math.e + seen)
