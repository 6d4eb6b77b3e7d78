"""Reset a few random weights after every update."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from holdfast.options.ranges import Share
from holdfast.randomness import seed_for
from holdfast.records import Step
from holdfast.recovery._base import RECOVERIES, Recovery
from holdfast.restorable import Restorable


@RECOVERIES.register("stochastic")
class Stochastic(Recovery):
    """Resets each trained weight to the source with a small probability after each update.

    The optimiser keeps its moments, and no reset is reported, because the model as a whole is never reset.
    """

    citation = "Wang et al., CVPR 2022 (CoTTA)"
    meanings: ClassVar = {
        "restore_share": "probability that a trained weight is reset after an update",
        "seed": "of the random draws",
    }
    updates: int

    def __init__(self, *, restore_share: Share = 0.01, seed: int = 0) -> None:
        super().__init__()
        self.restore_share, self.seed = restore_share, seed
        self.add_state("updates", 0)

    def recover(self, method: Restorable, step: Step) -> str | None:
        """Reset a share of the weights, if there was an update."""
        if step.loss is None:
            return None
        generator = torch.Generator().manual_seed(seed_for(self.seed, "restore", self.updates))
        self.updates += 1

        def chosen(weight: Tensor, _gradient: Tensor | None) -> Tensor:
            # Drawn on the CPU, so that the same elements are chosen on every device.
            drawn = torch.rand(weight.shape, generator=generator, device="cpu")
            return (drawn < self.restore_share).to(weight.device)

        method.restore(chosen)
        return None
