"""Whether a saved state fits the model that is about to load it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

__all__ = ["check_saved"]


def check_saved(found: Mapping[str, Any], expected: Mapping[str, Any], dtype: torch.dtype) -> None:
    """Raise a ValueError unless a saved state has the expected names, types and shapes, and finite values.

    Expected are tensors and, for the declared state of a module, the mapping of its defaults; tensors whose default is
    None have the type of the model, or single precision.

    >>> check_saved({"weight": torch.zeros(3)}, {"weight": torch.zeros(2)}, torch.float32)
    Traceback (most recent call last):
    ValueError: 'weight' has shape (3,), expected (2,)
    """
    unknown, missing = sorted(set(found) - set(expected)), sorted(set(expected) - set(found))
    if unknown:
        raise ValueError(f"{unknown[0]!r} is nothing that adaptation changes")
    if missing:
        raise ValueError(f"{missing[0]!r} is missing")
    for name, value in found.items():
        now = expected[name]
        if isinstance(now, Tensor):
            if not isinstance(value, Tensor) or value.dtype != now.dtype:
                raise ValueError(f"{name!r} is {getattr(value, 'dtype', type(value).__name__)}, expected {now.dtype}")
            if value.shape != now.shape:
                raise ValueError(f"{name!r} has shape {tuple(value.shape)}, expected {tuple(now.shape)}")
        else:
            _check_declared(name, value, now, {dtype, torch.promote_types(dtype, torch.float32)})
        if not _is_finite(value):
            raise ValueError(f"{name!r} holds values that are not finite")


def _check_declared(part: str, found: Any, defaults: Mapping[str, Any], floating: set[torch.dtype]) -> None:
    """Compare the declared state of one module with its defaults: shapes may differ, and None may become anything."""
    if not isinstance(found, dict) or set(found) != set(defaults):
        names = sorted(found) if isinstance(found, dict) else type(found).__name__
        raise ValueError(f"{part!r} holds {names}, expected {sorted(defaults)}")
    for name, default in defaults.items():
        value = found[name]
        if default is None:
            wrong = [
                tensor.dtype
                for tensor in _tensors(value)
                if tensor.is_floating_point() and tensor.dtype not in floating
            ]
            if wrong:
                raise ValueError(f"{name!r} in {part!r} is {wrong[0]}, expected {min(map(str, floating))}")
        elif isinstance(default, Tensor):
            if not isinstance(value, Tensor) or value.dtype != default.dtype:
                raise ValueError(f"{name!r} in {part!r} is {_kind(value)}, expected {_kind(default)}")
        elif type(value) is not type(default):
            raise ValueError(f"{name!r} in {part!r} is {_kind(value)}, expected {_kind(default)}")


def _kind(value: Any) -> str:
    return str(value.dtype) if isinstance(value, Tensor) else type(value).__name__


def _tensors(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, (list, dict)):
        for item in value if isinstance(value, list) else value.values():
            yield from _tensors(item)


def _is_finite(value: Any) -> bool:
    if isinstance(value, Tensor):
        return not value.is_floating_point() or bool(torch.isfinite(value).all())
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, (list, dict)):
        return all(map(_is_finite, value if isinstance(value, list) else value.values()))
    return True
