"""Estimate class proportions from unlabelled samples."""

from __future__ import annotations

import math

import torch
from torch import Tensor

__all__ = ["agreed", "entropy_of", "proportions_by_evidence", "reweigh", "variety"]

PSEUDO_COUNTS = (0.1, 0.3, 1.0, 3.0, 10.0, 1000.0)  # few classes in the window … all equally frequent
BIAS = 0.1  # of log K nats for each sample: evidence of few classes that the bias of a classifier explains


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


def proportions_by_evidence(
    probabilities: Tensor, *, bias: float = BIAS, window: int = 64, rounds: int = 10, counted: Tensor | None = None
) -> Tensor:
    """Return for each sample the class proportions that the other samples of its window show, (samples, classes).

    A small pseudo-count expects few classes, a large one equal proportions. The posteriors under several are averaged
    with weights by their evidence lower bounds, so that a balanced window is left alone and a window of one class is
    not. Under a shift a classifier prefers some classes whatever it is shown, so few classes have to be better than
    equal proportions by `bias` · log K nats for each sample of a full `window`; samples of a single class are better by
    nearly log K each. `counted` is 1 for each row that holds a sample and 0 for the others, (samples,).

    >>> each = torch.eye(4) * 0.4 + 0.15
    >>> windows = [each.repeat(12, 1), each[[0, 0, 1, 2, 3]].repeat(12, 1), each[[0]].repeat(48, 1)]
    >>> [round(float(proportions_by_evidence(window)[0, 0]), 2) for window in windows]  # balanced, biased, one class
    [0.25, 0.25, 0.99]
    """
    counts = torch.tensor(PSEUDO_COUNTS, dtype=probabilities.dtype, device=probabilities.device)[:, None, None]
    weighed = _reweigh(probabilities, counts, rounds, counted)  # (pseudo-counts, samples, classes)
    evidence = _evidence(probabilities, weighed, counts, counted)
    samples, classes = probabilities.shape
    number = max(samples, window) if counted is None else counted.sum().clamp_min(window)
    evidence = torch.cat([evidence[:-1] - bias * math.log(classes) * number, evidence[-1:]])
    weights = evidence.softmax(0)
    mean = (weights[:, None, None] * weighed).sum(0)  # a product of matrices would be in half precision under autocast
    return _normalised(mean / probabilities.clamp_min(torch.finfo(probabilities.dtype).tiny))


def agreed(one: Tensor, other: Tensor) -> Tensor:
    """Return the class proportions on which two judges agree, (samples, classes).

    A class is more frequent than the others only as far as both say so; one that a single judge prefers by its own
    errors is as frequent as any other.

    >>> agreed(torch.tensor([[0.9, 0.1, 0.0]]), torch.tensor([[0.8, 0.0, 0.2]]))
    tensor([[0.6444, 0.1778, 0.1778]])
    >>> agreed(torch.tensor([[0.9, 0.1, 0.0]]), torch.tensor([[0.0, 0.1, 0.9]]))
    tensor([[0.3333, 0.3333, 0.3333]])
    """
    equal = 1 / one.shape[-1]
    excess = torch.minimum(one, other).sub(equal).clamp_min(0)
    return excess + (1 - excess.sum(-1, keepdim=True)) * equal


def _normalised(weights: Tensor) -> Tensor:
    return weights / weights.sum(-1, keepdim=True).clamp_min(torch.finfo(weights.dtype).tiny)


def _reweigh(probabilities: Tensor, pseudo_count: Tensor, rounds: int, counted: Tensor | None = None) -> Tensor:
    weighed = probabilities
    for _ in range(rounds):
        own = weighed if counted is None else weighed * counted[:, None]
        weighed = probabilities * (own.sum(-2, keepdim=True) - own + pseudo_count)
        weighed = weighed / weighed.sum(-1, keepdim=True)
    return weighed


def _counted(rows: Tensor, counted: Tensor | None) -> Tensor:
    return rows if counted is None else rows * counted[:, None]


def _evidence(probabilities: Tensor, weighed: Tensor, pseudo_counts: Tensor, counted: Tensor | None) -> Tensor:
    """Return the evidence lower bound of each pseudo-count, but for a constant: Σ w log(p / w) + log Γ terms.

    The latter are large and differ by little, so that they are taken in double precision.
    """
    fit = _counted(torch.xlogy(weighed, probabilities) - torch.xlogy(weighed, weighed), counted).sum((1, 2))
    counts, alpha = _counted(weighed, counted).sum(1).double(), pseudo_counts[:, 0].double()
    total, classes = counts.sum(1), counts.shape[1]  # counts: (pseudo-counts, classes), alpha: (pseudo-counts, 1)
    prior = torch.lgamma(classes * alpha[:, 0]) - torch.lgamma(classes * alpha[:, 0] + total)
    return (fit + prior + (torch.lgamma(counts + alpha) - torch.lgamma(alpha)).sum(1)).to(fit)


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
