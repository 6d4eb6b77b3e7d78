"""Reset the weights with the smallest gradients after every update."""

from __future__ import annotations

import math
from typing import ClassVar

import torch
from torch import Tensor

from holdfast.options.ranges import Share
from holdfast.records import Step
from holdfast.recovery._base import RECOVERIES, Recovery
from holdfast.restorable import Restorable


@RECOVERIES.register("fisher")
class Fisher(Recovery):
    """Resets the share of trained weights with the smallest squared gradients to the source after each update.

    Deterministic, over all trained weights together, as in the official code (the paper calls it stochastic). PETAL's
    share is 0.03 on CIFAR and 0.003 on ImageNet. The optimiser keeps its moments, and no reset is reported, because
    the model as a whole is never reset.
    """

    citation = "Brahma & Rai, CVPR 2023 (PETAL)"
    meanings: ClassVar = {
        "restore_share": "share of the trained weights that is reset after each update",
    }

    def __init__(self, *, restore_share: Share = 0.03) -> None:
        super().__init__()
        self.restore_share = restore_share

    def recover(self, method: Restorable, step: Step) -> str | None:
        """Reset the weights below the threshold of this update, if there was an update."""
        gradients = [weight.grad.flatten() for weight in method.trained if weight.grad is not None]
        if step.loss is None or not gradients:
            return None
        threshold = quantile(torch.cat(gradients).square(), self.restore_share)

        def chosen(weight: Tensor, gradient: Tensor | None) -> Tensor:
            return torch.zeros_like(weight, dtype=torch.bool) if gradient is None else gradient.square() < threshold

        method.restore(chosen)
        return None


def quantile(values: Tensor, share: float) -> Tensor:
    """Return a quantile by linear interpolation; unlike `torch.quantile`, for any number of values.

    >>> quantile(torch.tensor([5.0, 1.0, 4.0, 2.0, 3.0]), 0.375)
    tensor(2.5000)
    """
    rank = share * (len(values) - 1)
    lower, upper = (values.kthvalue(1 + neighbour).values for neighbour in (math.floor(rank), math.ceil(rank)))
    return lower.lerp(upper, rank - math.floor(rank))
