"""Estimate class proportions from unlabelled samples."""

from __future__ import annotations

import math

from torch import Tensor

__all__ = ["reweigh", "variety"]


def reweigh(probabilities: Tensor, *, pseudo_count: float = 0.25, rounds: int = 20) -> Tensor:
    """Return probabilities, (samples, classes), reweighed by the class proportions of the other samples.

    A network trained on balanced classes assumes balanced batches. Here the proportions are unknown, with a Dirichlet
    prior of `pseudo_count` for each class, and each sample is weighed by all samples except itself (collapsed
    variational inference, Asuncion et al., UAI 2009; including itself this is the EM of Saerens et al., Neural
    Computation 2002, which reinforces its own predictions when there are fewer samples than classes).

    >>> import torch
    >>> unsure, sure = torch.tensor([[0.5, 0.5]]), torch.tensor([[0.9, 0.1]])
    >>> [round(float(reweigh(torch.cat([unsure, *[sure] * many]))[0, 0]), 2) for many in (0, 1, 8)]
    [0.5, 0.8, 0.97]
    """
    weighed = probabilities
    for _ in range(rounds):
        weighed = probabilities * (weighed.sum(0) - weighed + pseudo_count)
        weighed = weighed / weighed.sum(1, keepdim=True)
    return weighed


def variety(proportions: Tensor) -> float:
    """Return the effective number of classes: the exponential of the entropy of their proportions.

    >>> import torch
    >>> [round(variety(torch.tensor(shares)), 3) for shares in ([0.5, 0.5, 0.0], [1.0, 0.0, 0.0])]
    [2.0, 1.0]
    """
    return math.exp(-float(proportions.xlogy(proportions).sum()))
