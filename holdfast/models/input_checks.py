"""What is wrong with inputs that a model cannot take, in one sentence."""

from __future__ import annotations

import torch
from torch import Tensor

from holdfast.records import InputSpec

SCALING = {"image": "inputs.float() / 255", "audio": "inputs.float() / 32768", "other": "inputs.float()"}


def check_inputs(inputs: Tensor, spec: InputSpec, dtype: torch.dtype) -> None:
    """Raise when inputs are no batch, or no images: networks may run on them all the same, and return nonsense.

    >>> check_inputs(torch.zeros(0, 3, 32, 32), InputSpec("image", (3, 32, 32)), torch.float32)
    Traceback (most recent call last):
    ValueError: inputs hold no sample, shape (0, 3, 32, 32); skip empty batches
    """
    if not isinstance(inputs, Tensor):
        kind = f"{type(inputs).__module__}.{type(inputs).__qualname__}".removeprefix("builtins.")
        raise TypeError(f"inputs must be a torch.Tensor, got {kind}; pass torch.as_tensor(inputs)")
    shape = tuple(inputs.shape)
    if len(shape) <= len(spec.shape):
        raise ValueError(
            f"inputs have shape {shape} without a batch axis, and the model takes {_expected(spec)}; pass inputs[None] "
            "for a single sample"
        )
    if inputs.numel() == 0:
        raise ValueError(f"inputs hold no sample, shape {shape}; skip empty batches")
    check_dtype(inputs, spec, dtype)


def check_source(batch: Tensor, spec: InputSpec, dtype: torch.dtype) -> None:
    """Raise when a batch of source or held-out data is none that the network could take.

    >>> check_source(torch.zeros(3, 32, 32), InputSpec("image", (3, 32, 32)), torch.float32)
    Traceback (most recent call last):
    ValueError: source and held-out data come in batches, (batch, 3, 32, 32), got (3, 32, 32); pass [inputs], or a torch.utils.data.DataLoader of the data set
    """  # noqa: E501
    if isinstance(batch, Tensor) and batch.dim() <= len(spec.shape):
        raise ValueError(
            f"source and held-out data come in batches, {_expected(spec)}, got {tuple(batch.shape)}; pass [inputs], or "
            "a torch.utils.data.DataLoader of the data set"
        )
    check_inputs(batch, spec, dtype)


def check_dtype(inputs: Tensor, spec: InputSpec, dtype: torch.dtype) -> None:
    """Raise when images, volumes or waveforms are integers and a network takes floating-point ones, or the reverse.

    Networks that promote integers would predict at a wrong scale. Integers with fewer axes are indices or counts, which
    have none: the network itself refuses those that it cannot take.

    >>> bytes_of_images = torch.zeros(2, 3, 32, 32, dtype=torch.uint8)
    >>> check_dtype(bytes_of_images, InputSpec("image", (3, 32, 32)), torch.uint8)
    >>> check_dtype(torch.zeros(2, 16, dtype=torch.int64), InputSpec("other", (16,)), torch.float32)
    """
    if has_scale(spec) and (reason := explain_dtype(inputs, spec, dtype)):
        raise ValueError(reason)


def has_scale(spec: InputSpec) -> bool:
    """Return whether inputs are images, volumes or waveforms, whose values mean nothing without their scale.

    >>> has_scale(InputSpec("image", (3, 32, 32))), has_scale(InputSpec("other", (16,)))
    (True, False)
    """
    return spec.kind != "other" or len(spec.shape) >= 3


def explain_dtype(inputs: Tensor, spec: InputSpec, dtype: torch.dtype) -> str | None:
    """Return why a network cannot take integers, or none but its own, or None when that is not the matter.

    >>> explain_dtype(torch.zeros(2, 3, 8, 8), InputSpec("image", (3, 8, 8)), torch.uint8)
    'inputs are torch.float32, and the model takes torch.uint8; pass (255 * inputs).round().to(torch.uint8)'
    """
    if dtype.is_floating_point and not inputs.is_floating_point() and not inputs.is_complex():
        return (
            f"inputs are {inputs.dtype}; pass floating-point values scaled as in training, e.g. {SCALING[spec.kind]}, "
            "or build the model with example=inputs if the network scales integers itself"
        )
    if dtype.is_floating_point or inputs.dtype == dtype:
        return None
    unit = dtype == torch.uint8 and inputs.is_floating_point() and spec.kind == "image"
    remedy = "(255 * inputs).round().to(torch.uint8)" if unit else f"inputs.to({dtype})"
    return f"inputs are {inputs.dtype}, and the model takes {dtype}; pass {remedy}"


def explain_inputs(inputs: Tensor, spec: InputSpec, dtype: torch.dtype) -> str | None:
    """Return why a network could not take inputs, or None when they look right.

    >>> explain_inputs(torch.zeros(2, 3, 32, 32), InputSpec("image", (1, 32, 32)), torch.float32)
    'inputs have 3 channels, and the model takes 1: (batch, 1, 32, 32)'
    """
    if reason := explain_dtype(inputs, spec, dtype):
        return reason
    if inputs.dim() != len(spec.shape) + 1:
        return f"inputs have shape {tuple(inputs.shape)}, and the model takes {_expected(spec)}"
    if len(spec.shape) > 1 and inputs.shape[1] != spec.shape[0]:
        return f"inputs have {inputs.shape[1]} channels, and the model takes {spec.shape[0]}: {_expected(spec)}"
    if inputs.dtype != dtype:
        return f"inputs are {inputs.dtype}, and the model takes {dtype}; pass inputs.to({dtype})"
    return None


def _expected(spec: InputSpec) -> str:
    return f"(batch, {', '.join(map(str, spec.shape))})"
