"""Compare tensors and weights bit by bit; what the contracts of every kind use."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from holdfast.model.adapted import AdaptedModel

Batches = Sequence[Tensor]


def hooks_of(module: nn.Module) -> int:
    """Return how many forward hooks the parts of a module have; the caller's own network may come with some.

    >>> layer = nn.Linear(2, 2)
    >>> _ = layer.register_forward_hook(print); hooks_of(nn.Sequential(layer))
    1
    """
    return sum(len(part._forward_hooks) + len(part._forward_pre_hooks) for part in module.modules())


def weights_of(model: AdaptedModel) -> list[Tensor]:
    """Return copies of all parameters and buffers of the method."""
    return [tensor.detach().clone() for tensor in (*model.method.parameters(), *model.method.buffers())]


def logits_of(output: Any) -> Tensor:
    """Return the logits of a network's output, which may be a tensor or an object that has `logits`."""
    return output if isinstance(output, Tensor) else output.logits


def assert_equal(expected: Sequence[Tensor], actual: Sequence[Tensor], what: str) -> None:
    """Raise an AssertionError for the first pair of tensors that differ in any bit."""
    for left, right in zip(expected, actual, strict=True):
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
    if not isinstance(left, (nn.Module, dict, list, tuple, torch.optim.Optimizer)):
        plain = isinstance(left, (int, float, str, bool))
        return path if plain and left != right and left == left else None
    seen.add(id(left))
    ours, theirs = _items(left), _items(right)
    if list(ours) != list(theirs):
        return path
    differences = (first_difference(ours[name], theirs[name], f"{path}{name}", _seen=seen) for name in ours)
    return next((name for name in differences if name is not None), None)


def _items(container: Any) -> dict[str, Any]:
    """Return what a container holds, by the text that leads to it."""
    if isinstance(container, nn.Module):
        container = vars(container)
    if isinstance(container, torch.optim.Optimizer):
        container = container.state_dict()
    if isinstance(container, dict):
        return {f".{key}": item for key, item in container.items()}
    return {f"[{number}]": item for number, item in enumerate(container)}
