"""What is wrong with inputs that a model cannot take, in one sentence."""

from __future__ import annotations

import torch
from torch import Tensor

from holdfast.records import InputSpec

__all__ = ["check_inputs", "explain_inputs"]


def check_inputs(inputs: Tensor, spec: InputSpec) -> None:
    """Raise when inputs are no batch: networks may run on them all the same, and return nonsense.

    >>> check_inputs(torch.zeros(0, 3, 32, 32), InputSpec("image", (3, 32, 32)))
    Traceback (most recent call last):
    ValueError: inputs hold no sample, shape (0, 3, 32, 32); skip empty batches
    """
    if not isinstance(inputs, Tensor):
        found = f"{type(inputs).__module__}.{type(inputs).__qualname__}".removeprefix("builtins.")
        raise TypeError(f"inputs must be a torch.Tensor, got {found}; pass torch.as_tensor(inputs)")
    shape = tuple(inputs.shape)
    if len(shape) <= len(spec.shape):
        raise ValueError(
            f"inputs have shape {shape} without a batch axis, and the model takes {_expected(spec)}; pass inputs[None] "
            "for a single sample"
        )
    if inputs.numel() == 0:
        raise ValueError(f"inputs hold no sample, shape {shape}; skip empty batches")


def explain_inputs(inputs: Tensor, spec: InputSpec, dtype: torch.dtype) -> str | None:
    """Return why a network could not take inputs, or None when they look right.

    >>> explain_inputs(torch.zeros(2, 3, 32, 32, dtype=torch.uint8), InputSpec("image", (3, 32, 32)), torch.float32)
    'inputs are torch.uint8; pass floating-point values scaled as in training, e.g. inputs.float() / 255'
    """
    if not dtype.is_floating_point and inputs.dtype != dtype:
        return f"inputs are {inputs.dtype}, and the model takes {dtype}; pass inputs.to({dtype})"
    if dtype.is_floating_point and not inputs.is_floating_point():
        return f"inputs are {inputs.dtype}; pass floating-point values scaled as in training, e.g. inputs.float() / 255"
    if inputs.dim() != len(spec.shape) + 1:
        return f"inputs have shape {tuple(inputs.shape)}, and the model takes {_expected(spec)}"
    if len(spec.shape) > 1 and inputs.shape[1] != spec.shape[0]:
        return f"inputs have {inputs.shape[1]} channels, and the model takes {spec.shape[0]}: {_expected(spec)}"
    if inputs.dtype != dtype:
        return f"inputs are {inputs.dtype}, and the model takes {dtype}; pass inputs.to({dtype})"
    return None


def _expected(spec: InputSpec) -> str:
    return f"(batch, {', '.join(map(str, spec.shape))})"
