"""Reset when the estimated accuracy is low, or lower than it was."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from holdfast.records import Step
from holdfast.recovery._base import RECOVERIES, Recovery
from holdfast.restorable import Restorable

__all__ = ["EstimateDrop"]


@RECOVERIES.register("estimate_drop")
class EstimateDrop(Recovery):
    """Resets to the source when an estimate falls below a threshold, or one window of them below the window before.

    The rule is AETTA's, for the estimate of any estimator. The code asks for a drop by two points between windows of
    five; the paper's text has no such margin (`margin=0`).
    """

    citation = "Lee et al., CVPR 2024 (AETTA)"
    estimates: list[float]

    def __init__(
        self, *, estimate: str = "aetta", threshold: float = 0.2, window: int = 5, margin: float = 0.02
    ) -> None:
        super().__init__()
        if window < 1:
            raise ValueError(f"window={window} holds no estimate; pass a whole number of at least 1")
        self.estimate, self.threshold, self.window, self.margin = estimate, threshold, window, margin
        self.add_state("estimates", [])  # since the last reset, two windows at most

    @property
    def reads(self) -> Sequence[str]:
        """The one estimator whose estimate it follows."""
        return (self.estimate,)

    def recover(self, method: Restorable, step: Step) -> str | None:
        """Reset when the newest estimate is too low, or the newest window lower than the one before."""
        if step.skipped:  # an estimate on faulty inputs says nothing about the model
            return None
        if self.estimate not in step.estimates:
            raise ValueError(
                f"estimate_drop reads the estimate of {self.estimate!r}, and nobody makes it; pass "
                f"estimator={self.estimate!r} to adapt, or estimate='...' with one of {', '.join(step.estimates)}"
            )
        newest = step.estimates[self.estimate]
        if newest.unknown is not None:  # no evidence, now or as part of a window
            return None
        self.estimates = [*self.estimates, newest.value][-2 * self.window :]
        reason = self._reason()
        if reason is not None:
            method.reset()
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
