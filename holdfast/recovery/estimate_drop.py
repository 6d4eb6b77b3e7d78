"""Reset when the estimated accuracy is low or has dropped."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import Any, ClassVar

from holdfast.options.ranges import Count
from holdfast.records import Step
from holdfast.recovery._base import RECOVERIES, Resetting
from holdfast.restorable import Restorable


@RECOVERIES.register("estimate_drop")
class EstimateDrop(Resetting):
    """Resets to the source when an estimate is below a threshold, or a window's mean below that of the window before.

    The rule is AETTA's, for any estimator. Its code asks for a drop of two points between windows of five; the paper's
    text has no such margin (`margin=0`).
    """

    citation = "Lee et al., CVPR 2024 (AETTA)"
    meanings: ClassVar = {
        "estimate": "name of the estimator",
        "threshold": "accuracy below which it resets at once",
        "window": "number of batches in each of the two means that are compared",
        "margin": "smallest drop between them that causes a reset",
    }
    estimates: list[float]

    def __init__(
        self,
        *,
        estimate: str = "aetta",
        threshold: float = 0.2,
        window: Count = 5,
        margin: float = 0.02,
        **reset: Any,
    ) -> None:
        super().__init__(**reset)
        self.estimate, self.threshold, self.window, self.margin = estimate, threshold, window, margin
        self.add_state("estimates", [])  # since the last reset, at most two windows

    @property
    def reads(self) -> Sequence[str]:
        """The estimator that it follows."""
        return (self.estimate,)

    def recover(self, method: Restorable, step: Step) -> str | None:
        """Reset if the newest estimate is too low, or the newest window is below the one before."""
        if step.skipped:  # an estimate on faulty inputs is no evidence
            return None
        if self.estimate not in step.estimates:
            raise ValueError(
                f"estimate_drop reads the estimator {self.estimate!r}, but no such estimator is configured; pass "
                f"estimator={self.estimate!r} to adapt, or estimate='...' with one of {', '.join(step.estimates)}"
            )
        newest = step.estimates[self.estimate]
        if newest.unknown is not None:  # no evidence now, nor in a window
            return None
        self.estimates = [*self.estimates, newest.value][-2 * self.window :]
        reason = self._reason()
        if reason is not None:
            self.reset(method)
            self.estimates = []
        return reason

    def _reason(self) -> str | None:
        newest = self.estimates[-1]
        if newest < self.threshold:
            return f"estimated accuracy {newest:.3g} below {self.threshold:.3g}"
        if len(self.estimates) == 2 * self.window:
            before, now = fmean(self.estimates[: self.window]), fmean(self.estimates[self.window :])
            if now + self.margin < before:
                return f"estimated accuracy fell from {before:.3g} to {now:.3g} over {self.window} batches"
        return None
