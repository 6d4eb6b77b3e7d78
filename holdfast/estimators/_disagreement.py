"""Disagreement of predictions under dropout, and the terms of AETTA's error."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Disagreement:
    """The terms of AETTA's error for one batch (Lee et al., CVPR 2024, Algorithm 1)."""

    share: float  # PDD: share of samples and masks whose prediction differs
    entropy: float  # E_avg: of the mean prediction, in nats
    skew: float  # b: larger when fewer classes are predicted
    error: float  # b · PDD, clipped to an error rate


def measure_disagreement(logits: Tensor, dropped: Tensor, skew_power: float = 3.0) -> Disagreement:
    """Return the terms of the error of logits, (batch, classes), given those under dropout, (masks, batch, classes).

    As in the official code: 1e-6 inside the logarithm, ln K to four decimals, and an error of at most 1 − 1/K.

    >>> import torch
    >>> logits = 9.0 * torch.eye(4)
    >>> measure_disagreement(logits, torch.stack([logits, logits.roll(1, 0)])).share
    0.5
    """
    classes = logits.shape[1]
    agreement = (dropped.argmax(2) == logits.argmax(1)).double().mean()
    mean = dropped.float().softmax(2).mean(0).mean(0)
    spread = -(mean * (mean + 1e-6).log()).sum()
    same, entropy = torch.stack([agreement, spread.double()]).tolist()  # the host waits once
    share = 1 - same
    skew = _power(entropy / round(math.log(classes), 4), -skew_power)
    raw, worst = skew * share, 1 - 1 / classes
    # Non-finite logits or an unbounded skew count as the worst error.
    error = worst if math.isnan(raw) else min(max(raw, 0.0), worst)
    return Disagreement(share, entropy, skew, error)


def _power(base: float, exponent: float) -> float:
    """Return a power of a number that can be 0, or just below 0 at total collapse (from the 1e-6)."""
    if math.isnan(base) or (base < 0 and not exponent.is_integer()):
        return math.nan
    return math.inf if base == 0 and exponent < 0 else float(base**exponent)
