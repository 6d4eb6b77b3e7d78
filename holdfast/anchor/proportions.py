"""Estimate class proportions from unlabelled samples."""

from __future__ import annotations

import math

import torch
from torch import Tensor

PSEUDO_COUNTS = (0.1, 0.3, 1.0, 3.0, 10.0, 1000.0)  # few classes in the window … all equally frequent
ALL_AT_ONCE = 100  # classes up to which all pseudo-counts are tried at once: more would not stay in the cache
ALL_ALONE = 1000  # classes up to which each is weighed by itself
RANKED = 256  # most probable ones that are, if there are more
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
    return _reweigh(probabilities, torch.tensor(pseudo_count), None, rounds, None)[0]


def proportions_by_evidence(
    probabilities: Tensor, *, bias: float = BIAS, window: int = 64, rounds: int = 10, counted: Tensor | None = None
) -> Tensor:
    """Return for each sample the class proportions that the other samples of its window show, (…, samples, classes).

    A small pseudo-count expects few classes, a large one equal proportions. The posteriors under several are averaged
    with weights by their evidence lower bounds, so that a balanced window is left alone and a window of one class is
    not. Under a shift a classifier prefers some classes whatever it is shown, so few classes have to be better than
    equal proportions by `bias` · log K nats for each sample of a full `window`; samples of a single class are better by
    nearly log K each. `counted` is 1 for each row that holds a sample and 0 for the others, (samples,).

    Above a thousand classes the most probable ones of the window are weighed one by one, and the others share one
    proportion: a window has too few samples of any of them to tell them apart.

    >>> each = torch.eye(4) * 0.4 + 0.15
    >>> windows = [each.repeat(12, 1), each[[0, 0, 1, 2, 3]].repeat(12, 1), each[[0]].repeat(48, 1)]
    >>> [round(float(proportions_by_evidence(window)[0, 0]), 2) for window in windows]  # balanced, biased, one class
    [0.25, 0.25, 0.99]
    """
    samples, classes = probabilities.shape[-2:]
    number = max(samples, window) if counted is None else counted.sum().clamp_min(window)
    price = bias * math.log(classes) * number  # of few classes, in nats
    if classes <= ALL_ALONE:
        return _normalised(_proportions(probabilities, None, classes, rounds, counted, price))
    ranked = _counted(probabilities, counted).sum(-2, keepdim=True).topk(RANKED).indices
    alone = probabilities.take_along_dim(ranked, -1)
    columns = torch.cat([alone, (1 - alone.sum(-1, keepdim=True)).clamp_min(0)], -1)
    sizes = torch.cat([columns.new_ones(RANKED), columns.new_full((1,), classes - RANKED)])
    proportions = _proportions(columns, sizes, classes, rounds, counted, price)
    proportions = proportions / (proportions * sizes).sum(-1, keepdim=True).clamp_min(_tiny(proportions))
    shared, own = proportions[..., -1:].expand(probabilities.shape), proportions[..., :-1]
    return shared.scatter(-1, ranked.expand(own.shape), own)


def agreed_proportions(one: Tensor, other: Tensor, *, window: int = 64, counted: Tensor | None = None) -> Tensor:
    """Return the class proportions on which two judges agree by their probabilities for a window of samples.

    >>> one = torch.tensor([[0.9, 0.1]]).repeat(64, 1)
    >>> [round(float(agreed_proportions(one, other)[0, 0]), 2) for other in (one, one.flip(1), one * 0 + 0.5)]
    [0.75, 0.5, 0.5]
    """
    if one.shape[-1] <= ALL_AT_ONCE:
        return agreed(*proportions_by_evidence(torch.stack([one, other]), window=window, counted=counted))
    return agreed(*(proportions_by_evidence(each, window=window, counted=counted) for each in (one, other)))


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
    excess = torch.minimum(one, other).sub_(equal).clamp_min_(0)
    return excess.add_((1 - excess.sum(-1, keepdim=True)) * equal)


def _tiny(values: Tensor) -> float:
    return torch.finfo(values.dtype).tiny


def _normalised(weights: Tensor) -> Tensor:
    return weights / weights.sum(-1, keepdim=True).clamp_min(_tiny(weights))


def _counted(rows: Tensor, counted: Tensor | None) -> Tensor:
    return rows if counted is None else rows * counted[:, None]


def _proportions(
    probabilities: Tensor,
    sizes: Tensor | None,
    classes: int,
    rounds: int,
    counted: Tensor | None,
    price: float | Tensor,
) -> Tensor:
    """Return the proportions of each column but for a factor; a column may stand for as many classes as its size."""
    if classes <= ALL_AT_ONCE:  # sums over few classes are faster across the memory than along it
        probabilities = probabilities.mT.contiguous().mT
    alphas = torch.tensor(PSEUDO_COUNTS, dtype=probabilities.dtype, device=probabilities.device)
    parts = alphas.view(-1, *[1] * probabilities.dim()).split(len(alphas) if classes <= ALL_AT_ONCE else 1)
    posteriors = [_posterior(probabilities, alpha, sizes, classes, rounds, counted) for alpha in parts]
    evidence = torch.cat([bound for _, bound in posteriors])
    evidence = torch.cat([evidence[:-1] - price, evidence[-1:]])
    shares = evidence.softmax(0)[..., None, None].split([len(alpha) for alpha in parts])
    # Not as a product of matrices, which would be in half precision under autocast.
    mean: Tensor = (shares[0] * posteriors[0][0]).sum(0)
    for share, (weighed, _) in zip(shares[1:], posteriors[1:], strict=True):
        mean = mean.addcmul_(share[0], weighed[0])
    return mean / probabilities.clamp_min(_tiny(probabilities))


def _reweigh(
    probabilities: Tensor, alpha: Tensor, sizes: Tensor | None, rounds: int, counted: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    """Return w = p · a / z for the counts of the other samples and pseudo-counts a, with the last a and z."""
    weighed, others, total = probabilities, alpha, alpha
    pseudo_counts = alpha if sizes is None else alpha * sizes
    for _ in range(rounds):
        own = weighed if counted is None else weighed * counted[:, None]
        others = (own.sum(-2, keepdim=True) + pseudo_counts) - own
        others = others if sizes is None else others.div_(sizes)
        weighed = others * probabilities  # (pseudo-counts, …, samples, columns)
        total = weighed.sum(-1, keepdim=True)
        weighed.div_(total)
    return weighed, others, total


def _posterior(
    probabilities: Tensor, alpha: Tensor, sizes: Tensor | None, classes: int, rounds: int, counted: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Return the posterior probabilities under pseudo-counts, and their evidence lower bounds but for a constant.

    These are Σ w log(p / w) + log Γ terms, where p / w = z / a. The latter are large and differ by little, so that they
    are taken in double precision.
    """
    weighed, others, total = _reweigh(probabilities, alpha, sizes, rounds, counted)
    each = total.log() - (weighed * others.log()).sum(-1, keepdim=True)  # (pseudo-counts, …, samples, 1)
    fit = _counted(each, counted).sum((-2, -1))
    alpha, counts = alpha[..., 0, 0].double(), _counted(weighed, counted).sum(-2).double()
    prior = torch.lgamma(classes * alpha) - torch.lgamma(classes * alpha + counts.sum(-1))
    counts = counts if sizes is None else counts / sizes
    terms = torch.lgamma(counts + alpha[..., None]) - torch.lgamma(alpha)[..., None]
    return weighed, (fit + prior + (terms if sizes is None else terms * sizes).sum(-1)).to(fit)


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
