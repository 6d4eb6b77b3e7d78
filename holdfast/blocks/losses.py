"""Per-sample losses on logits."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

__all__ = ["entropy", "soft_cross_entropy"]


def entropy(logits: Tensor) -> Tensor:
    """Return the entropy of each predicted distribution in nats, (batch,).

    >>> round(float(entropy(torch.zeros(1, 10))), 4)  # ln 10
    2.3026
    """
    log_probs = F.log_softmax(logits, dim=1)
    # A masked class has log-probability -inf, and 0 · (-inf) would make the whole sum NaN.
    return -(log_probs.exp() * log_probs.clamp_min(torch.finfo(log_probs.dtype).min)).sum(1)


def soft_cross_entropy(logits: Tensor, targets: Tensor) -> Tensor:
    """Return the cross-entropy of predictions against the distribution of other logits, (batch,).

    >>> round(float(soft_cross_entropy(torch.zeros(1, 10), torch.rand(1, 10))), 4)  # ln 10, whatever the target
    2.3026
    """
    return -(targets.softmax(1) * F.log_softmax(logits, dim=1)).sum(1)
