"""Compare tensors: by name, or but for rounding."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor


def close(actual: Tensor, expected: Tensor, slack: float = 1.0) -> bool:
    """Return whether two tensors are equal but for rounding.

    >>> close(torch.tensor([1.0, 2.0]), torch.tensor([1.0, 2.00001])), close(torch.ones(1), torch.zeros(1))
    (True, False)
    """
    tolerance = slack * torch.finfo(expected.dtype).eps ** 0.5
    scale = float(expected.nan_to_num().abs().max())
    return torch.allclose(actual, expected, rtol=0.0, atol=tolerance * max(scale, 1e-30), equal_nan=True)


def differing(tensors: Mapping[str, Tensor], others: Mapping[str, Tensor]) -> list[str]:
    """Return the names of the tensors that are not equal; the host waits at most once for another device.

    >>> differing({"a": torch.ones(2), "b": torch.zeros(2)}, {"a": torch.ones(2), "b": torch.ones(2)})
    ['b']
    """
    if {tensor.device.type for tensor in tensors.values()} <= {"cpu"}:
        return [name for name, tensor in tensors.items() if not torch.equal(tensor, others[name])]
    differences = torch.stack([(tensor != others[name]).any() for name, tensor in tensors.items()]).tolist()
    return [name for name, differs in zip(tensors, differences, strict=True) if differs]
