"""Compare tensors by name."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

__all__ = ["differing"]


def differing(tensors: Mapping[str, Tensor], others: Mapping[str, Tensor]) -> list[str]:
    """Return the names of the tensors that are not equal; the host waits at most once for another device.

    >>> differing({"a": torch.ones(2), "b": torch.zeros(2)}, {"a": torch.ones(2), "b": torch.ones(2)})
    ['b']
    """
    if all(tensor.device.type == "cpu" for tensor in tensors.values()):
        return [name for name, tensor in tensors.items() if not torch.equal(tensor, others[name])]
    found = torch.stack([(tensor != others[name]).any() for name, tensor in tensors.items()]).tolist()
    return [name for name, differs in zip(tensors, found, strict=True) if differs]
