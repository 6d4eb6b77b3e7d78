"""Losses on logits, per sample; the nuclear norm is per batch."""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional as F


def entropy(logits: Tensor) -> Tensor:
    """Return the entropy of each predicted distribution in nats, (batch,).

    >>> round(float(entropy(torch.zeros(1, 10))), 4)  # ln 10
    2.3026
    """
    log_probs = F.log_softmax(logits, dim=1)
    # A masked class has log-probability -inf, and 0 · (-inf) would make the whole sum NaN.
    return -(log_probs.exp() * log_probs.clamp_min(torch.finfo(log_probs.dtype).min)).sum(1)


def smoothed_entropy(logits: Tensor, *, eps: float = 1e-6) -> Tensor:
    """Return -Σ p log(p + ε), (batch,), the entropy as computed by RoTTA, SoTTA and NOTE.

    It is slightly negative when the prediction is certain. DHAuDS uses ε = 1e-8; 1e-6 for HuBERT on Speech Commands.

    >>> round(float(smoothed_entropy(torch.tensor([[100.0, 0.0]]))), 8)
    -9.5e-07
    """
    probs = logits.softmax(1)
    return -(probs * (probs + eps).log()).sum(1)


def soft_cross_entropy(logits: Tensor, targets: Tensor) -> Tensor:
    """Return the cross-entropy of predictions against the distribution of other logits, (batch,).

    >>> round(float(soft_cross_entropy(torch.zeros(1, 10), torch.rand(1, 10))), 4)  # ln 10 for any target
    2.3026
    """
    return -(targets.softmax(1) * F.log_softmax(logits, dim=1)).sum(1)


def soft_likelihood_ratio(logits: Tensor, *, clip: float | None = None, eps: float = 0.0) -> Tensor:
    """Return -Σ p log(p / (1 - p)) of each prediction, (batch,); its gradient does not vanish for certain predictions.

    Without `clip` it is evaluated from the logits and finite for all of them (Mummadi et al., 2021). With `clip` the
    probabilities are clipped first, `eps` is added inside the logarithm, and no gradient passes through clipped
    probabilities (Marsden et al., WACV 2024).

    >>> round(float(soft_likelihood_ratio(torch.zeros(1, 10))), 4)  # ln 9
    2.1972
    """
    if clip is not None:
        probs = logits.softmax(1).clamp_max(clip)
        return -(probs * (probs / (1 - probs) + eps).log()).sum(1)
    # -inf for a masked class would turn 0 · inf into NaN.
    lowest = torch.finfo(logits.dtype).min
    log_probs = F.log_softmax(logits, dim=1).clamp_min(lowest)
    probs = log_probs.exp()
    # log(1 - p) cancels near p = 1. Only the largest p can be there: sum the other probabilities for it instead.
    top = logits.argmax(1, keepdim=True)
    log_rivals = log_probs.scatter(1, top, lowest).logsumexp(1, keepdim=True)
    log_others = torch.log1p(-probs.scatter(1, top, 0.0)).scatter(1, top, log_rivals)
    return (probs * (log_others - log_probs)).sum(1)


def generalised_cross_entropy(logits: Tensor, labels: Tensor, *, exponent: float) -> Tensor:
    """Return (1 - p_y^q) / q of each prediction, (batch,): between cross-entropy (q → 0) and 1 - p_y (q = 1).

    The larger the exponent, the smaller the influence of wrong labels (Zhang & Sabuncu, NeurIPS 2018).

    >>> logits = torch.tensor([[0.0, 0.0]])
    >>> generalised_cross_entropy(logits, torch.tensor([1]), exponent=1.0)
    tensor([0.5000])
    """
    log_probs = F.log_softmax(logits, dim=1).gather(1, labels[:, None]).squeeze(1)
    return -torch.expm1(exponent * log_probs) / exponent


def conjugate_loss(logits: Tensor, *, poly_epsilon: float = 0.0) -> Tensor:
    """Return PolyLoss, CE + ε (1 - p_y), at its conjugate pseudo-labels, (batch,).

    The labels solve (I + ε diag(p) - ε p pᵀ) y = p, which is y ∝ p / (1 + ε p) (Goyal et al., NeurIPS 2022). With ε = 0
    the training loss is cross-entropy, y = p, and the conjugate loss is the entropy.

    >>> logits = torch.tensor([[2.0, 1.0, 0.0]])
    >>> torch.equal(conjugate_loss(logits), entropy(logits))
    True
    """
    log_probs = F.log_softmax(logits, dim=1).clamp_min(torch.finfo(logits.dtype).min)
    probs = log_probs.exp()
    labels = probs / (1 + poly_epsilon * probs)
    labels = labels / labels.sum(1, keepdim=True)
    return (labels * (poly_epsilon * (1 - probs) - log_probs)).sum(1)


def generalised_entropy(logits: Tensor, *, exponent: float) -> Tensor:
    """Return (1 - Σ p^q) / (q - 1) of each prediction, (batch,); q = 1 is the entropy (Tsallis, 1988).

    The larger the exponent, the smaller the influence of unlikely classes.

    >>> generalised_entropy(torch.zeros(1, 4), exponent=2.0)  # 1 - Σ p²
    tensor([0.7500])
    """
    if exponent == 1:
        return entropy(logits)
    # For q < 1 the derivative of p^q is infinite at p = 0; that of exp(q log p) is not.
    powers = (exponent * F.log_softmax(logits, dim=1)).exp()
    return (1 - powers.sum(1)) / (exponent - 1)


def opinion_entropy(logits: Tensor, *, doubt: float | None = None, eps: float = 1e-7) -> Tensor:
    """Return the entropy of each prediction, (batch,), with one entry for "unknown" beside the classes.

    The prediction is the softmax over the logits and ln K, with K = `doubt`, by default the number of classes; the
    official code has 1000 for any network. The gradient leaves the norm of the logits as it is, so that confidence
    cannot grow by scale alone (Zhang et al., ICLR 2025). Finite for all logits; the official code overflows above 88.

    >>> round(float(opinion_entropy(torch.zeros(1, 10))), 4)  # ln 2 + ½ ln 10: half unknown, half uniform
    1.8444
    """
    # A masked class has logit -inf, and its square has no derivative.
    logits = logits.clamp_min(-(torch.finfo(logits.dtype).max ** 0.25))
    norm = logits.norm(dim=1, keepdim=True)
    logits = logits / norm.clamp_min(torch.finfo(logits.dtype).tiny) * norm.detach()
    unknown = logits.new_full((len(logits), 1), math.log(doubt or logits.shape[1]))
    probs = torch.cat([logits, unknown], dim=1).softmax(1) + eps
    return -(probs * probs.log()).sum(1)


def negative_nuclear_norm(logits: Tensor, *, exact: bool = False, largest: bool = False) -> Tensor:
    """Return minus the nuclear norm of the predictions (batch, classes) per class; low for diverse predictions.

    As in the official code of DHAuDS, the sum of the singular values is approximated by that of the column norms, equal
    to it if every prediction is certain (Cui et al., 2021); `exact` uses the singular values, as in the paper. With
    `largest` the mean is over the min(batch, classes) largest columns, as in CoNMix.

    >>> negative_nuclear_norm(torch.eye(3) * 100)  # three certain predictions, all different
    tensor(-1.)
    """
    probs = logits.softmax(1)
    if exact:
        singular_values: Tensor = torch.linalg.svdvals(probs)
        return -singular_values.sum() / probs.shape[1]
    # A class that is never predicted has norm 0, where the square root has no derivative.
    norms = (probs.square().sum(0) + torch.finfo(probs.dtype).tiny).sqrt()
    return -(norms.topk(min(probs.shape)).values if largest else norms).mean()


def balanced_agreement(logits: Tensor, others: Tensor, mean_probs: Tensor) -> Tensor:
    """Return the cross-entropy of one view's predictions to another's, rebalanced to the mean prediction, (batch,).

    The targets are the predictions times the ratio of the test set's mean prediction to the batch's. As in the official
    code of CoNMix they have unit length instead of sum 1, and no gradient (Kumar et al., WACV 2023).

    >>> balanced_agreement(torch.zeros(1, 2), torch.zeros(1, 2), torch.tensor([0.5, 0.5]))  # √2 log 2
    tensor([0.9802])
    """
    probs = logits.detach().softmax(1)
    targets = F.normalize(probs * (mean_probs / probs.mean(0)))
    return -(targets * (others.softmax(1) + 1e-5).log()).sum(1)


def prediction_distance(logits: Tensor, others: Tensor, *, order: Literal[1, 2] = 2) -> Tensor:
    """Return the distance between the predictions for two views of each sample, (batch,).

    Order 2 is Euclidean, as in the official code of DHAuDS; order 1 sums absolute differences, as in the paper.

    >>> prediction_distance(torch.tensor([[99.0, 0.0]]), torch.tensor([[0.0, 99.0]]), order=1)
    tensor([2.])
    """
    difference = logits.softmax(1) - others.softmax(1)
    if order == 1:
        return difference.abs().sum(1)
    # The square root has no derivative at 0, which would turn the gradient of two equal views into NaN.
    return (difference.square().sum(1) + 1e-14).sqrt()
