"""Estimate class proportions from unlabelled samples."""

from __future__ import annotations

import math

import torch
from torch import Tensor

__all__ = ["entropy_of", "reweigh", "reweigh_by_evidence", "variety"]

PSEUDO_COUNTS = (0.1, 0.3, 1.0, 3.0, 10.0, 1000.0)  # few classes in the window … all equally frequent


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
    return _reweigh(probabilities, torch.tensor(pseudo_count), rounds)


def reweigh_by_evidence(probabilities: Tensor, *, rounds: int = 10) -> Tensor:
    """Return probabilities reweighed by class proportions whose prior is chosen by the samples themselves.

    A small pseudo-count expects few classes, a large one equal proportions. The posteriors under several are averaged
    with weights by their evidence lower bounds, so that a balanced window is left alone and a window of one class is
    not. In small windows of many classes nothing is known, and little is changed.

    >>> balanced, sure = torch.eye(4) * 0.4 + 0.15, torch.tensor([[0.7, 0.1, 0.1, 0.1]])
    >>> [round(float(reweigh_by_evidence(rows.repeat(16, 1))[0, 0]), 2) for rows in (balanced, sure)]
    [0.55, 0.99]
    """
    counts = torch.tensor(PSEUDO_COUNTS, dtype=probabilities.dtype, device=probabilities.device)[:, None, None]
    weighed = _reweigh(probabilities, counts, rounds)  # (pseudo-counts, samples, classes)
    weights = _evidence(probabilities, weighed, counts).softmax(0)
    return (weights[:, None, None] * weighed).sum(0)  # a product of matrices would be in half precision under autocast


def _reweigh(probabilities: Tensor, pseudo_count: Tensor, rounds: int) -> Tensor:
    weighed = probabilities
    for _ in range(rounds):
        weighed = probabilities * (weighed.sum(-2, keepdim=True) - weighed + pseudo_count)
        weighed = weighed / weighed.sum(-1, keepdim=True)
    return weighed


def _evidence(probabilities: Tensor, weighed: Tensor, pseudo_counts: Tensor) -> Tensor:
    """Return the evidence lower bound of each pseudo-count, but for a constant: Σ w log(p / w) + log Γ terms."""
    counts, alpha = weighed.sum(1), pseudo_counts[:, 0]  # (pseudo-counts, classes), (pseudo-counts, 1)
    total, classes = counts.sum(1), counts.shape[1]
    fit = torch.xlogy(weighed, probabilities) - torch.xlogy(weighed, weighed)
    prior = torch.lgamma(classes * alpha[:, 0]) - torch.lgamma(classes * alpha[:, 0] + total)
    return fit.sum((1, 2)) + prior + (torch.lgamma(counts + alpha) - torch.lgamma(alpha)).sum(1)


def variety(proportions: Tensor) -> float:
    """Return the effective number of classes: the exponential of the entropy of their proportions.

    >>> import torch
    >>> [round(variety(torch.tensor(shares)), 3) for shares in ([0.5, 0.5, 0.0], [1.0, 0.0, 0.0])]
    [2.0, 1.0]
    """
    return math.exp(float(entropy_of(proportions)))


def entropy_of(proportions: Tensor) -> Tensor:
    """Return the entropy of proportions in nats, ()."""
    return -proportions.xlogy(proportions).sum()
