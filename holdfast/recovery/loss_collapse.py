"""Reset when the loss is implausibly small."""

from __future__ import annotations

import math
from typing import Any, ClassVar, Literal

from holdfast.options.ranges import Share
from holdfast.records import Step
from holdfast.recovery._base import RECOVERIES, Resetting
from holdfast.restorable import Restorable


@RECOVERIES.register("loss_collapse")
class LossCollapse(Resetting):
    """Resets to the source when the moving average of the loss falls below a threshold: a sign of collapse.

    It suits losses that measure uncertainty, such as entropy. The published threshold was chosen for 1000 classes, and
    a healthy model with ten classes can be below it: `reset_threshold="scaled"` is 0.2 · ln C / ln 1000. `keep_average`
    keeps the low average after a reset, as the official code does by accident, so it resets until the average rises.
    """

    citation = "Niu et al., ICLR 2023 (SAR)"
    meanings: ClassVar = {
        "reset_threshold": "average loss below which it resets; scaled: by the number of classes",
        "loss_momentum": "share of itself that the average loss keeps at each update",
        "keep_average": "whether a reset keeps the average, as in the official code",
    }
    average: float | None

    def __init__(
        self,
        *,
        reset_threshold: float | Literal["scaled"] = 0.2,
        loss_momentum: Share = 0.9,
        keep_average: bool = False,
        **reset: Any,
    ) -> None:
        super().__init__(**reset)
        self.reset_threshold, self.loss_momentum, self.keep_average = reset_threshold, loss_momentum, keep_average
        self.add_state("average", None)

    def recover(self, method: Restorable, step: Step) -> str | None:
        """Add the loss of this batch to the average, if there is one, and reset if the average is too low."""
        if step.loss and not math.isnan(step.loss):  # no update, or a loss of exactly 0
            previous = step.loss if self.average is None else self.average
            self.average = self.loss_momentum * previous + (1 - self.loss_momentum) * step.loss
        threshold = self.reset_threshold
        if threshold == "scaled":
            threshold = 0.2 * math.log(step.logits.shape[1]) / math.log(1000)
        if self.average is None or self.average >= threshold:
            return None
        reason = f"moving average of the loss {self.average:.3g} below {threshold:.3g}"
        self.reset(method)
        if not self.keep_average:
            self.average = None
        return reason
