"""Samples as networks take them; apart from the rest of the room, which needs no torch."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

__all__ = ["as_inputs"]


def as_inputs(samples: NDArray[Any]) -> Tensor:
    """Return images (n, height, width, 3) of bytes as (n, 3, height, width) in [0, 1], and waveforms as they are.

    >>> as_inputs(np.full((1, 2, 2, 3), 255, np.uint8)).max(), as_inputs(np.zeros((1, 800), np.float32)).shape
    (tensor(1.), torch.Size([1, 800]))
    """
    if samples.dtype == np.uint8:
        return torch.from_numpy(samples).permute(0, 3, 1, 2).float().div(255).contiguous()
    return torch.from_numpy(samples)
