"""Pseudo-labels for a whole set from the nearest class centre (SHOT, Liang et al., ICML 2020).

The refinement with the labels of the previous epoch is by Kumar et al. (CoNMix, WACV 2023).
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F


def nearest_centres(features: Tensor, probs: Tensor) -> tuple[Tensor, Tensor]:
    """Return labels (n,) and soft labels (n, classes) from class centres weighted by predictions, then by labels.

    A constant is appended to the features (n, width), which are then scaled to unit length. The soft labels are the
    softmax of the exponential of the cosine, as in the official code of CoNMix++.
    """
    features = F.normalize(torch.cat([features, features.new_ones(len(features), 1)], dim=1))
    weights = probs
    for _ in range(2):
        centres = weights.T @ features / (weights.sum(0)[:, None] + 1e-8)
        likeness = (features @ centres.T).exp()
        labels = likeness.argmax(1)
        weights = F.one_hot(labels, probs.shape[1]).to(probs)
    return labels, likeness.softmax(1)


def refined_labels(
    labels: Tensor, soft_labels: Tensor, before: Tensor, *, trust: float = 0.9, one_hot: bool = False
) -> Tensor:
    """Return soft labels (n, classes), refined by the class overlap with the labels of the previous epoch.

    As in the official code of CoNMix++, the label is added as an integer, equal for all classes, which the softmax
    cancels; `one_hot` adds it as a one-hot vector with weight `trust` (α), as intended.
    """
    classes = soft_labels.shape[1]
    now, then = (F.one_hot(given, classes).to(soft_labels) for given in (labels, before))
    shared = then.T @ now  # (classes before, classes now)
    either = then.sum(0)[:, None] + now.sum(0) - shared
    overlap = torch.where(either > 0, shared / either.clamp_min(1), torch.zeros_like(shared)).softmax(1)
    own = now if one_hot else labels[:, None].to(soft_labels)
    return (trust * own + (1 - trust) * (soft_labels @ overlap)).softmax(1)
