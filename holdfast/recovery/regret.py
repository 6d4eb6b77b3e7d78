"""Reset when the model is estimated to be worse than the source."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from holdfast.options.ranges import Count, NotNegative
from holdfast.records import Step
from holdfast.recovery._base import RECOVERIES, Recovery
from holdfast.restorable import Restorable


@RECOVERIES.register("regret")
class Regret(Recovery):
    """Resets the method when the model is estimated to be worse than the source as it was given. Ours.

    It reads the `gain` of an estimate: predictions of the model and of the source on the same batch, by the same
    estimator, so that a harder domain, which is as hard for both, does not cause a reset. Gains are averaged over the
    last `samples` compared samples, missing ones counting as 0; the model is reset when the average loss exceeds
    `margin`. A reset restores what was learnt; where the method is worse than the source by its batch statistics alone,
    only `guard` helps.
    """

    meanings: ClassVar = {
        "estimate": "name of an estimator that compares with the source",
        "margin": "average loss against the source that causes a reset",
        "samples": "number of compared samples in the average",
    }

    gains: list[list[float]]

    def __init__(self, *, estimate: str = "anchored", margin: NotNegative = 0.05, samples: Count = 320) -> None:
        super().__init__()
        self.estimate, self.margin, self.samples = estimate, margin, samples
        self.add_state("gains", [])  # [gain, samples] of each comparison since the last reset

    @property
    def reads(self) -> Sequence[str]:
        """The estimator whose gain it reads."""
        return (self.estimate,)

    @property
    def reads_gain(self) -> bool:
        """It reads nothing but the gain."""
        return True

    def recover(self, method: Restorable, step: Step) -> str | None:
        """Reset if the last compared samples are worse by more than the margin."""
        estimate = step.estimates.get(self.estimate)
        if estimate is None:
            raise ValueError(
                f"regret reads the gain of the estimator {self.estimate!r}, but no such estimator is configured; "
                f"pass estimator={self.estimate!r} to adapt"
            )
        if step.skipped or estimate.gain is None:  # not every batch is compared
            return None
        self.gains = [*self.gains, [estimate.gain, float(len(step.logits))]]
        while sum(size for _, size in self.gains[1:]) >= self.samples:
            self.gains = self.gains[1:]
        compared = sum(size for _, size in self.gains)
        loss = -sum(gain * size for gain, size in self.gains) / max(compared, self.samples)
        if loss <= self.margin:
            return None
        method.reset()
        self.gains = []
        return f"estimated to be {100 * loss:.3g} points worse than the source"
