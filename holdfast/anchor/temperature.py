"""Temperature scaling: fit confidence to labels."""

from __future__ import annotations

import math

from scipy.optimize import minimize_scalar
from torch import Tensor
from torch.nn import functional as F

__all__ = ["fit_temperature"]


def fit_temperature(logits: Tensor, labels: Tensor) -> float:
    """Return the temperature that minimises cross-entropy on held-out labels (Guo et al., ICML 2017).

    >>> import torch
    >>> logits = torch.tensor([[1.0, 0.0]] * 4)
    >>> round(fit_temperature(logits, torch.tensor([0, 0, 0, 1])), 2)  # 1 / ln 3
    0.91
    """
    logits, labels = logits.double(), labels.to(logits.device)

    def cross_entropy(log_temperature: float) -> float:
        return float(F.cross_entropy(logits / math.exp(log_temperature), labels))

    found = minimize_scalar(cross_entropy, bounds=(math.log(0.05), math.log(50)), method="bounded")
    return math.exp(float(found.x))
