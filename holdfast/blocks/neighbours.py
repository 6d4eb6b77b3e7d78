"""COFA: neighbours in a stream are often of one class, so two features are averaged before they are classified."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from holdfast.state import Stateful

__all__ = ["Filter", "NeighbourAverage", "surer"]

Filter = Literal["official", "fixed", "off"]


class NeighbourAverage(Stateful):
    """Averages the features of each sample with those of the sample before it, across batches too (Du et al., 2024).

    >>> average = NeighbourAverage()
    >>> average(torch.tensor([[1.0], [3.0]])).tolist(), average(torch.tensor([[5.0]])).tolist()
    ([[1.0], [2.0]], [[4.0]])
    """

    last: Tensor | None  # features of the last sample, as they came

    def __init__(self) -> None:
        super().__init__()
        self.add_state("last", None)

    def forward(self, features: Tensor, *, learn: bool = True) -> Tensor:
        """Return the averages, (batch, width); the very first sample has itself for a neighbour."""
        first = features[:1] if self.last is None else self.last
        averages = (features + torch.cat([first, features[:-1]])) / 2
        if learn:
            self.last = features[-1:].detach().clone()
        return averages


def surer(log_probs: Tensor, others: Tensor) -> Tensor:
    """Return, of two answers to each sample, the one with the larger maximum; of equals the first.

    >>> surer(torch.tensor([[-1.0, -3.0], [-2.0, -2.0]]), torch.tensor([[-2.0, -2.0], [-1.0, -3.0]])).tolist()
    [[-1.0, -3.0], [-1.0, -3.0]]
    """
    first = log_probs.amax(1, keepdim=True) >= others.amax(1, keepdim=True)
    return torch.where(first, log_probs, others)
