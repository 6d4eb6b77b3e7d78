"""Convert samples to network inputs; a module of its own, because the rest of the room does not import torch."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

__all__ = ["as_inputs"]


def as_inputs(samples: NDArray[Any]) -> Tensor:
    """Return uint8 images (n, height, width, 3) as (n, 3, height, width) in [0, 1], and waveforms unchanged.

    >>> as_inputs(np.full((1, 2, 2, 3), 255, np.uint8)).max(), as_inputs(np.zeros((1, 800), np.float32)).shape
    (tensor(1.), torch.Size([1, 800]))
    """
    if samples.dtype == np.uint8:
        return torch.from_numpy(samples).permute(0, 3, 1, 2).float().div(255).contiguous()
    return torch.from_numpy(samples)
