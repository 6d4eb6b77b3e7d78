"""Reset as much as the predictions have narrowed, when they narrow more than they usually vary."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from holdfast.records import Step
from holdfast.recovery._base import RECOVERIES, Recovery
from holdfast.restorable import Restorable

__all__ = ["Adaptive"]


@RECOVERIES.register("adaptive")
class Adaptive(Recovery):
    """Puts the last layers back to the source when predictions are concentrated on fewer classes than they used to be.

    Concentration is ln C minus the entropy of the batch's mean prediction. The idea is that of ASR: when it exceeds its
    own moving average, layers go back from the output on, the more the higher it is; all of them is a reset. Ours are
    the margin, `deviations` times the usual deviation from that average (at first a halving of the classes, ln 2), and
    the share of the parameters, which is the share of the way that is left to a single class.
    """

    citation = "after ASR, arXiv 2603.03796 (ICLR 2026)"
    usual: float | None
    variance: float

    def __init__(
        self, *, momentum: float = 0.95, deviations: float = 4.0, min_margin: float = 0.1, min_share: float = 0.1
    ) -> None:
        super().__init__()
        if not 0 <= momentum < 1:
            raise ValueError(f"momentum={momentum} never moves or overshoots; pass a number from 0 to below 1")
        if not 0 < min_share <= 1:
            raise ValueError(f"min_share={min_share} is not a share of the weights; pass a number above 0, at most 1")
        self.momentum, self.deviations = momentum, deviations
        self.min_margin, self.min_share = min_margin, min_share  # in nats; of the parameters
        self.add_state("usual", None)
        self.add_state("variance", (math.log(2) / deviations) ** 2)

    def recover(self, method: Restorable, step: Step) -> str | None:
        """Restore the last layers where this batch is too concentrated, and learn from it what is usual."""
        if step.skipped:
            return None
        found = concentration(step.logits)
        if self.usual is None:  # nothing has been learnt yet that could be taken back
            self.usual = found
            return None
        usual, margin = self.usual, max(self.min_margin, self.deviations * math.sqrt(self.variance))
        excess = found - usual
        # What exceeds the margin counts as the margin: a collapse must not pass for usual, a lasting change may.
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
    """Put the last of the trained parameters back, at least this share of them, and say what was done."""
    trained = list(method.trained)
    count = math.ceil(share * len(trained))
    if count >= len(trained):
        method.reset()
        return "all of the model went back"
    last = {id(weight) for weight in trained[-count:]}
    method.restore(lambda weight, _: torch.full_like(weight, id(weight) in last, dtype=torch.bool))
    return f"the last {count} of {len(trained)} parameters went back"
