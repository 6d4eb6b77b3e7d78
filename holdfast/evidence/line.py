"""A line fitted to the labels so far, which corrects estimated probabilities."""

from __future__ import annotations

from holdfast.state import Stateful

PRIOR_LABELS = 10.0  # weight of "the estimates are right"
SUMS = ("weight", "x", "xx", "y", "xy")


class CorrectionLine(Stateful):
    """Predict an outcome from an estimate of it by weighted least squares, starting from the identity.

    Within [`lowest`, `highest`] of the outcome at both ends, so that a correction cannot leave the possible range.

    >>> line = CorrectionLine(lowest=0, highest=1)
    >>> line.at(0.8)
    0.8
    >>> for _ in range(1000):
    ...     line.add(0.8, 0.6); line.add(0.2, 0.4)
    >>> round(line.at(0.8), 2)
    0.6
    """

    sums: dict[str, float]

    def __init__(self, *, lowest: float, highest: float) -> None:
        super().__init__()
        self.lowest, self.highest = lowest, highest
        self.add_state("sums", dict.fromkeys(SUMS, 0.0))

    def add(self, estimate: float, outcome: float, weight: float = 1.0) -> None:
        """Add one labelled sample."""
        values = (1.0, estimate, estimate * estimate, outcome, estimate * outcome)
        self.sums = {name: self.sums[name] + weight * value for name, value in zip(SUMS, values, strict=True)}

    def at(self, estimate: float) -> float:
        """Return the corrected estimate."""
        offset, slope = self.coefficients
        return offset + slope * estimate

    @property
    def coefficients(self) -> tuple[float, float]:
        """The offset and the slope."""
        sums, low, high = self.sums, self.lowest, self.highest
        # The prior: outcomes equal to estimates at both ends of the range, with half the weight each.
        ends, squares = PRIOR_LABELS * (low + high) / 2, PRIOR_LABELS * (low * low + high * high) / 2
        weight, x, y = sums["weight"] + PRIOR_LABELS, sums["x"] + ends, sums["y"] + ends
        xx, xy = sums["xx"] + squares, sums["xy"] + squares
        slope = (weight * xy - x * y) / (weight * xx - x * x)
        offset = (y - slope * x) / weight
        first, last = (min(max(offset + slope * end, low), high) for end in (low, high))
        slope = (last - first) / (high - low)
        return first - slope * low, slope
