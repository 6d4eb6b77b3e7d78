"""Reset the last layers when predictions concentrate on fewer classes than usual."""

from __future__ import annotations

import math
from typing import ClassVar

import torch
from torch import Tensor

from holdfast.options.ranges import Momentum, PositiveShare
from holdfast.records import Step
from holdfast.recovery._base import RECOVERIES, Recovery
from holdfast.restorable import Restorable


@RECOVERIES.register("adaptive")
class Adaptive(Recovery):
    """Resets the last layers to the source when predictions concentrate on fewer classes than usual.

    Concentration is ln C minus the entropy of the batch's mean prediction. As in ASR, when it exceeds its moving
    average, layers are reset from the output on: the higher it is, the more layers. Two rules are ours: the margin is
    `deviations` times the usual deviation from that average (at first ln 2, half the classes), and the share of reset
    parameters is the excess relative to the distance that is left to a single class.
    """

    citation = "after ASR, arXiv 2603.03796 (ICLR 2026)"
    meanings: ClassVar = {
        "momentum": "share of itself that the usual concentration keeps at each batch",
        "deviations": "excess over it that causes a reset, in usual deviations",
        "min_margin": "smallest excess that causes a reset, in nats",
        "min_share": "smallest share of the parameters that a reset covers",
    }
    usual: float | None
    variance: float

    def __init__(
        self,
        *,
        momentum: Momentum = 0.95,
        deviations: float = 4.0,
        min_margin: float = 0.1,
        min_share: PositiveShare = 0.1,
    ) -> None:
        super().__init__()
        self.momentum, self.deviations = momentum, deviations
        self.min_margin, self.min_share = min_margin, min_share  # in nats; of the parameters
        self.add_state("usual", None)
        self.add_state("variance", (math.log(2) / deviations) ** 2)

    def recover(self, method: Restorable, step: Step) -> str | None:
        """Reset the last layers if this batch is too concentrated, and update what is usual."""
        if step.skipped:
            return None
        now = concentration(step.logits)
        if self.usual is None:  # the first batch: there is no update to undo
            self.usual = now
            return None
        usual, margin = self.usual, max(self.min_margin, self.deviations * math.sqrt(self.variance))
        excess = now - usual
        # Clip at the margin: a collapse must not count as usual, a lasting change may.
        change = min(excess, margin)
        self.usual += (1 - self.momentum) * change
        self.variance += (1 - self.momentum) * (change**2 - self.variance)
        if excess <= margin:
            return None
        share = max(self.min_share, excess / (math.log(step.logits.shape[1]) - usual))
        return f"predictions {excess:.3g} nats more concentrated than usual; {restore_last(method, share)}"


def concentration(logits: Tensor) -> float:
    """Return how far the mean prediction of a batch is from uniform, in nats: 0 to ln C.

    >>> round(concentration(torch.zeros(4, 10)), 4), round(concentration(torch.tensor([[50.0, 0, 0, 0]])), 4)
    (0.0, 1.3863)
    """
    mean = logits.double().softmax(1).mean(0)
    return max(0.0, math.log(len(mean)) + float(mean.xlogy(mean).sum()))


def restore_last(method: Restorable, share: float) -> str:
    """Reset the last trained parameters, at least this share of them, and return what was done."""
    trained = list(method.trained)
    count = math.ceil(share * len(trained))
    if count >= len(trained):
        method.reset()
        return "all of the model went back"
    last = {id(weight) for weight in trained[-count:]}
    method.restore(lambda weight, _: torch.full_like(weight, id(weight) in last, dtype=torch.bool))
    return f"the last {count} of {len(trained)} parameters went back"
