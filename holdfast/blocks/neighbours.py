"""COFA: average the features of neighbouring samples, which often share a class, before classifying them."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from holdfast.state import Stateful

Filter = Literal["official", "fixed", "off"]


class NeighbourAverage(Stateful):
    """Average the features of each sample with those of the previous one, also across batches (Du et al., 2024).

    >>> average = NeighbourAverage()
    >>> average(torch.tensor([[1.0], [3.0]])).tolist(), average(torch.tensor([[5.0]])).tolist()
    ([[1.0], [2.0]], [[4.0]])
    """

    last: Tensor | None  # features of the last sample, before averaging

    def __init__(self) -> None:
        super().__init__()
        self.add_state("last", None)

    def forward(self, features: Tensor, *, learn: bool = True) -> Tensor:
        """Return the averages, (batch, width); the first sample of a stream is averaged with itself."""
        first = features[:1] if self.last is None else self.last
        averages = (features + torch.cat([first, features[:-1]])) / 2
        if learn:
            newest = features[-1:].detach()
            self.last = torch.where(torch.isfinite(newest).all(), newest, first.detach())
        return averages


def surer(log_probs: Tensor, others: Tensor) -> Tensor:
    """Return, for each sample, the prediction with the larger maximum; the first if they are equal.

    >>> surer(torch.tensor([[-1.0, -3.0], [-2.0, -2.0]]), torch.tensor([[-2.0, -2.0], [-1.0, -3.0]])).tolist()
    [[-1.0, -3.0], [-1.0, -3.0]]
    """
    # Compared as probabilities, as in the official code: both can round to 1 where their logarithms still differ.
    first = log_probs.amax(1, keepdim=True).exp() >= others.amax(1, keepdim=True).exp()
    return torch.where(first, log_probs, others)
