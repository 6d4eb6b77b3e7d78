"""Digests of nested state: structure, names, types, shapes and every bit of the values."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from holdfast.state.tree import rebuild

OF_NUMPY = {torch.float32, torch.float64, torch.int64, torch.bool}  # others are read as bytes


def divided(state: Mapping[str, Any]) -> tuple[Any, list[Tensor]]:
    """Return nested state as JSON can hold it, and its tensors, which are numbers in it behind "#"; text is behind "=".

    Keys are JSON themselves: an optimiser's state is keyed by integers, which JSON alone would turn into text.

    >>> divided({"seen": [1, "text", torch.ones(2)], 3: None})
    ({'"seen"': [1, '=text', '#0'], '3': None}, [tensor([1., 1.])])
    """
    tensors: list[Tensor] = []

    def plain(leaf: Any) -> Any:
        if isinstance(leaf, Tensor):
            tensors.append(leaf.detach() if leaf.is_cpu else leaf.detach().cpu())
            return f"#{len(tensors) - 1}"
        return f"={leaf}" if isinstance(leaf, str) else leaf

    return rebuild(plain, state, key=_key), tensors


_key = lru_cache(maxsize=4096, typed=True)(json.dumps)  # states have the same keys every time


def joined(outline: Any, tensors: Mapping[str, Tensor]) -> Any:
    """Return the nested state that was divided; each of the tensors, by their numbers, is used once.

    >>> joined({'"seen"': [1, "=text"], "3": None}, {})
    {'seen': [1, 'text'], 3: None}
    """
    left = dict(tensors)

    def whole(leaf: Any) -> Any:
        if not isinstance(leaf, str):
            return leaf
        return left.pop(leaf[1:]) if leaf[0] == "#" else leaf[1:]

    state = rebuild(whole, outline, key=json.loads)
    if left:
        raise ValueError("it holds tensors that its header does not name")
    return state


def digest_of(text: str, tensors: Iterable[Tensor]) -> str:
    """Return the hex digest of a text and of tensors in their order."""
    digest = hashlib.blake2b(text.encode(), digest_size=16)
    for tensor in tensors:
        flat = tensor if tensor.dim() == 1 and tensor.is_contiguous() else tensor.contiguous().view(-1)
        digest.update(_described(tensor.dtype, tensor.shape))
        digest.update((flat if tensor.dtype in OF_NUMPY else flat.view(torch.uint8)).numpy().data)
    return digest.hexdigest()


@lru_cache(maxsize=4096)
def _described(dtype: torch.dtype, shape: torch.Size) -> bytes:
    return f"{dtype}{tuple(shape)}".encode()


def state_digest(state: Mapping[str, Any]) -> str:
    """Return the hex digest of nested state.

    >>> state_digest({"seen": 1}) == state_digest({"seen": 1}), state_digest({"seen": 1}) == state_digest({"seen": 2})
    (True, False)
    """
    outline, tensors = divided(state)
    return digest_of(json.dumps(outline), tensors)
