"""COFA: neighbours in a stream are often of one class, so two features are averaged before they are classified."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from holdfast.state import Stateful

__all__ = ["Filter", "NeighbourAverage", "check_filter", "surer"]

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
        if learn and torch.isfinite(features[-1]).all():
            self.last = features[-1:].detach().clone()
        return averages


def check_filter(filter: Filter) -> Filter:
    """Return the filter, unless there is no such.

    >>> check_filter("off")
    'off'
    """
    if filter not in ("official", "fixed", "off"):
        raise ValueError(f"filter={filter!r} is not known; choose 'official', 'fixed' or 'off'")
    return filter


def surer(log_probs: Tensor, others: Tensor) -> Tensor:
    """Return, of two answers to each sample, the one with the larger maximum; of equals the first.

    >>> surer(torch.tensor([[-1.0, -3.0], [-2.0, -2.0]]), torch.tensor([[-2.0, -2.0], [-1.0, -3.0]])).tolist()
    [[-1.0, -3.0], [-1.0, -3.0]]
    """
    # As probabilities, like the official code: two that are both 1 to the last bit are equals, their logarithms not.
    first = log_probs.amax(1, keepdim=True).exp() >= others.amax(1, keepdim=True).exp()
    return torch.where(first, log_probs, others)
