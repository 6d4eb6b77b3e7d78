"""Inputs by name, as Hugging Face networks take them: `pixel_values=…`, or a mapping with one tensor."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from torch import Tensor

__all__ = ["single_input"]


def single_input(inputs: Tensor | Mapping[str, Tensor] | None, named: Mapping[str, Tensor]) -> Tensor:
    """Return the one batch among inputs that were passed by place, in a mapping or by keyword.

    A mask of ones changes nothing and is left out.

    >>> import torch
    >>> single_input({"pixel_values": torch.zeros(2, 3)}, {}).shape, single_input(None, {"x": torch.zeros(1)}).shape
    (torch.Size([2, 3]), torch.Size([1]))
    """
    if isinstance(inputs, Mapping):
        named, inputs = {**inputs, **named}, None
    if not named:
        return cast(Tensor, inputs)  # anything else is refused by name later
    given = {name: value for name, value in named.items() if not _changes_nothing(name, value)}
    if inputs is not None or len(given) != 1:
        names = ", ".join([*(["inputs"] if inputs is not None else []), *given]) or "none"
        raise ValueError(
            f"one batch is predicted at a time, got {names}; pass a single tensor, such as pixel_values=…, and bring "
            "samples to one length instead of masking them"
        )
    return next(iter(given.values()))


def _changes_nothing(name: str, value: Any) -> bool:
    return value is None or ("mask" in name and isinstance(value, Tensor) and bool(value.all()))
