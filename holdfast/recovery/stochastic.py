"""Forgetting at random: a few weights go back after every update."""

from __future__ import annotations

import torch
from torch import Tensor

from holdfast.randomness import seed_for
from holdfast.records import Step
from holdfast.recovery._base import RECOVERIES, Recovery
from holdfast.restorable import Restorable

__all__ = ["Stochastic"]


@RECOVERIES.register("stochastic")
class Stochastic(Recovery):
    """Puts every trained weight back to the source with a small probability after each update.

    The optimiser keeps its moments, and no reset is reported: the model as a whole never goes back.
    """

    citation = "Wang et al., CVPR 2022 (CoTTA)"
    updates: int

    def __init__(self, *, restore_share: float = 0.01, seed: int = 0) -> None:
        super().__init__()
        if not 0 <= restore_share <= 1:
            raise ValueError(f"restore_share={restore_share} is not a probability; pass a number between 0 and 1")
        self.restore_share, self.seed = restore_share, seed
        self.add_state("updates", 0)

    def recover(self, method: Restorable, step: Step) -> str | None:
        """Restore a share of the weights, except where nothing was learnt."""
        if step.loss is None:
            return None
        generator = torch.Generator().manual_seed(seed_for(self.seed, "restore", self.updates))
        self.updates += 1

        def chosen(weight: Tensor, gradient: Tensor | None) -> Tensor:
            # Drawn on the CPU wherever the weight is: the same elements on every device.
            return (torch.rand(weight.shape, generator=generator) < self.restore_share).to(weight.device)

        method.restore(chosen)
        return None
