"""Convert samples to network inputs; a module of its own, because the rest of the room does not import torch."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


def as_inputs(samples: NDArray[Any] | Tensor) -> Tensor:
    """Return uint8 images (n, height, width, 3) as (n, 3, height, width) in [0, 1], and waveforms unchanged.

    Bytes on a device become the same floats there as on the CPU, after a transfer of a quarter of the size.

    >>> as_inputs(np.full((1, 2, 2, 3), 255, np.uint8)).max(), as_inputs(np.zeros((1, 800), np.float32)).shape
    (tensor(1.), torch.Size([1, 800]))
    """
    stored = torch.from_numpy(samples) if isinstance(samples, np.ndarray) else samples
    if stored.dtype != torch.uint8:
        return stored
    # By a tensor: CUDA divides by a number as it multiplies by the reciprocal, which rounds differently.
    full = torch.full((), 255.0, device=stored.device)
    return stored.permute(0, 3, 1, 2).float().div_(full).contiguous()
