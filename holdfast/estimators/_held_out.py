"""Held-out source data that an estimator keeps."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

__all__ = ["first_held_out"]


def first_held_out(
    batches: Sequence[tuple[Tensor, Tensor | None]], samples: int, device: torch.device
) -> tuple[Tensor, Tensor]:
    """Return the first held-out inputs and their labels, on a device.

    >>> inputs, labels = first_held_out([(torch.zeros(4, 3), torch.arange(4))], 2, torch.device("cpu"))
    >>> inputs.shape, labels.tolist()
    (torch.Size([2, 3]), [0, 1])
    """
    inputs = torch.cat([inputs for inputs, _ in batches])[:samples]
    labels = torch.cat([labels for _, labels in batches if labels is not None])[:samples]
    return inputs.to(device), labels.to(device)
