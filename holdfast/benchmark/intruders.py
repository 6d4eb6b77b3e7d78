"""Scripted intruders: useless or harmful inputs between those of the stream, so that their harm can be measured."""

from __future__ import annotations

from typing import Literal

import torch
from pydantic import BaseModel, ConfigDict
from torch import Tensor, nn
from torch.nn import functional as F

from holdfast.options.ranges import Count, PositiveShare
from holdfast.records import Batch


class ScriptedIntruders(BaseModel):
    """Show the model useless inputs with some batches of the stream; they are predicted but not scored.

    `noise` is uniform, `constant` is mid-grey or silence, `scale` is the batch itself in 0..255 instead of 0..1, and
    `poison` is the batch itself, changed so that the source is sure of its first class (see `poisoned`). With a `share`
    below one, only the first samples of the batch are shown as intruders. They are a batch before that of the stream,
    or with `mixed` a part of the same batch.

    >>> script = ScriptedIntruders(kind="scale", every_batches=3)
    >>> [script.due(index) for index in range(4)]
    [False, False, True, False]
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    kind: Literal["noise", "constant", "scale", "poison"]
    every_batches: Count = 3
    share: PositiveShare = 1.0  # of the batch size
    mixed: bool = False

    def due(self, index: int) -> bool:
        """Return whether intruders come before or in the batch with this index."""
        return (index + 1) % self.every_batches == 0

    def inputs(self, batch: Batch, source: nn.Module) -> Tensor:
        """Return the intruders of a batch: the same for every recipe, `source` being the network as it was given."""
        shown = batch.inputs[: max(1, round(self.share * len(batch)))]
        if self.kind == "poison":
            return poisoned(source, shown)
        if self.kind == "scale":
            return 255 * shown
        if self.kind == "constant":
            return torch.full_like(shown, 0.5)
        return torch.rand(shown.shape, generator=torch.Generator().manual_seed(batch.position)).to(shown)


def poisoned(
    network: nn.Module, inputs: Tensor, *, target: int = 0, reach: float = 16 / 255, steps: int = 10
) -> Tensor:
    """Return inputs in [0, 1], each value changed by `reach` at most, that a network is sure to be of class `target`.

    Signed gradient steps (Madry et al., ICLR 2018). Inputs of one class mislead class proportions, and predictions
    that are sure and wrong mislead methods that train on them.

    >>> poisoned(nn.Identity(), torch.tensor([[0.48, 0.52]]), reach=0.25)
    tensor([[0.7300, 0.2700]])
    """
    changed = inputs.clone()
    wanted = torch.full((len(inputs),), target, device=inputs.device)
    for _ in range(steps):
        with torch.enable_grad():
            changed = changed.detach().requires_grad_()
            (slope,) = torch.autograd.grad(F.cross_entropy(network(changed), wanted), changed)
        moved = changed.detach() - 2.5 * reach / steps * slope.sign()
        changed = moved.clamp(inputs - reach, inputs + reach).clamp(0, 1)
    return changed.detach()
