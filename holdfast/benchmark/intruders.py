"""Scripted intruders: batches of useless inputs between those of the stream, so that their harm can be measured."""

from __future__ import annotations

from typing import Literal

import torch
from pydantic import BaseModel, ConfigDict, Field
from torch import Tensor

from holdfast.records import Batch

__all__ = ["ScriptedIntruders"]


class ScriptedIntruders(BaseModel):
    """Show the model useless inputs before some batches of the stream; they are predicted but not scored.

    `noise` is uniform, `constant` is mid-grey or silence, and `scale` is the batch itself in 0..255 instead of 0..1.
    With a `share` below one, only the first samples of the batch are shown as intruders.

    >>> script = ScriptedIntruders(kind="scale", every_batches=3)
    >>> [script.due(place) for place in range(4)]
    [False, False, True, False]
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    kind: Literal["noise", "constant", "scale"]
    every_batches: int = Field(default=3, ge=1)
    share: float = Field(default=1.0, gt=0, le=1)  # of the batch size

    def due(self, place: int) -> bool:
        """Return whether intruders come before the batch at this place of the stream."""
        return (place + 1) % self.every_batches == 0

    def inputs(self, batch: Batch) -> Tensor:
        """Return the intruders before a batch: the same for every recipe."""
        shown = batch.inputs[: max(1, round(self.share * len(batch)))]
        if self.kind == "scale":
            return 255 * shown
        if self.kind == "constant":
            return torch.full_like(shown, 0.5)
        return torch.rand(shown.shape, generator=torch.Generator().manual_seed(batch.position)).to(shown)
