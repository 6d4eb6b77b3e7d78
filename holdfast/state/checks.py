"""Whether a saved state fits the model that is about to load it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from holdfast.state.tree import leaves


def check_saved(saved: Mapping[str, Any], expected: Mapping[str, Any], dtype: torch.dtype) -> None:
    """Raise a ValueError unless a saved snapshot has the expected names, types and shapes, and finite values.

    Expected are the tensors and, for the declared state of each module, the mapping of its defaults; tensors whose
    default is None have the type of the model, or single precision.

    >>> one, other = ({"tensors": {"weight": torch.zeros(size)}, "declared": {}} for size in (3, 2))
    >>> check_saved(one, other, torch.float32)
    Traceback (most recent call last):
    ValueError: 'weight' has shape (3,), expected (2,)
    """
    _check_names(saved, expected)
    for kind, here in expected.items():
        _check_names(saved[kind], here)
        for name, value in saved[kind].items():
            if kind == "declared":
                _check_declared(name, value, here[name], {dtype, torch.promote_types(dtype, torch.float32)})
            elif _kind(value) != _kind(here[name]):
                raise ValueError(f"{name!r} is {_kind(value)}, expected {_kind(here[name])}")
            elif value.shape != here[name].shape:
                raise ValueError(f"{name!r} has shape {tuple(value.shape)}, expected {tuple(here[name].shape)}")
            if not all(map(_is_finite, leaves(value))):
                raise ValueError(f"{name!r} holds values that are not finite")


def _check_names(saved: Mapping[str, Any], expected: Mapping[str, Any]) -> None:
    unknown, missing = sorted(set(saved) - set(expected)), sorted(set(expected) - set(saved))
    if unknown:
        raise ValueError(f"{unknown[0]!r} is nothing that adaptation changes")
    if missing:
        raise ValueError(f"{missing[0]!r} is missing")


def _check_declared(part: str, saved: Any, defaults: Mapping[str, Any], floating: set[torch.dtype]) -> None:
    """Compare the declared state of one module with its defaults: shapes may differ, and None may become anything."""
    if not isinstance(saved, dict) or set(saved) != set(defaults):
        names = sorted(saved) if isinstance(saved, dict) else type(saved).__name__
        raise ValueError(f"{part!r} holds {names}, expected {sorted(defaults)}")
    for name, default in defaults.items():
        value = saved[name]
        if default is None:
            wrong = [
                tensor.dtype
                for tensor in leaves(value)
                if isinstance(tensor, Tensor) and tensor.is_floating_point() and tensor.dtype not in floating
            ]
            if wrong:
                raise ValueError(f"{name!r} in {part!r} is {wrong[0]}, expected {min(map(str, floating))}")
        elif _kind(value) != _kind(default):
            raise ValueError(f"{name!r} in {part!r} is {_kind(value)}, expected {_kind(default)}")


def _kind(value: Any) -> str:
    return str(value.dtype) if isinstance(value, Tensor) else type(value).__name__


def _is_finite(leaf: Any) -> bool:
    if isinstance(leaf, Tensor):
        return not leaf.is_floating_point() or bool(torch.isfinite(leaf).all())
    return not isinstance(leaf, float) or math.isfinite(leaf)
