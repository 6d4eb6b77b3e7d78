"""Compare tensors and weights bit by bit; what the contracts of every kind use."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from holdfast.adapted import AdaptedModel

__all__ = ["Batches", "assert_equal", "first_difference", "logits_of", "weights_of"]

Batches = Sequence[Tensor]


def weights_of(model: AdaptedModel) -> list[Tensor]:
    """Return copies of all parameters and buffers of the method."""
    return [tensor.detach().clone() for tensor in (*model.method.parameters(), *model.method.buffers())]


def logits_of(output: Any) -> Tensor:
    """Return the logits of a network's output, which may be a tensor or an object that has `logits`."""
    return output if isinstance(output, Tensor) else output.logits


def assert_equal(expected: Sequence[Tensor], found: Sequence[Tensor], what: str) -> None:
    """Raise an AssertionError for the first pair of tensors that differ in any bit."""
    for left, right in zip(expected, found, strict=True):
        assert torch.equal(left, right), f"{what} differ by up to {float((left - right).abs().max()):.2g}"


def first_difference(left: Any, right: Any, path: str = "", *, _seen: set[int] | None = None) -> str | None:
    """Return where two objects first differ: in values, containers, modules, optimisers and all that they hold.

    Gradients and functions are not compared.

    >>> first_difference({"a": [1, torch.ones(2)]}, {"a": [1, torch.zeros(2)]})
    '.a[1]'
    """
    seen = set() if _seen is None else _seen
    if id(left) in seen:
        return None
    if type(left) is not type(right):
        return path
    if isinstance(left, Tensor):
        same = left.shape == right.shape and left.dtype == right.dtype
        return None if same and torch.equal(left.detach().nan_to_num(), right.detach().nan_to_num()) else path
    if isinstance(left, (nn.Module, dict, list, tuple, torch.optim.Optimizer)):
        seen.add(id(left))
    if isinstance(left, nn.Module):
        left, right = vars(left), vars(right)
    if isinstance(left, torch.optim.Optimizer):
        left, right = left.state_dict(), right.state_dict()
    if isinstance(left, dict):
        if list(map(str, left)) != list(map(str, right)):
            return path
        pairs = [
            (f"{path}.{key}", item, other) for (key, item), other in zip(left.items(), right.values(), strict=True)
        ]
    elif isinstance(left, (list, tuple)):
        if len(left) != len(right):
            return path
        pairs = [(f"{path}[{place}]", *both) for place, both in enumerate(zip(left, right, strict=True))]
    else:
        plain = isinstance(left, (int, float, str, bool))
        return path if plain and left != right and left == left else None
    found = (first_difference(item, other, name, _seen=seen) for name, item, other in pairs)
    return next((name for name in found if name is not None), None)
