"""Convert arrays and tensors to float32 waveforms and back."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar, cast

import numpy as np

from holdfast.audio import Waveform

Sample = TypeVar("Sample")


def as_waveform(sample: Sample) -> tuple[Waveform, Callable[[Waveform], Sample]]:
    """Return a sample as float32 (samples,), and a function that converts such a waveform to the sample's type.

    >>> waveform, back = as_waveform(np.zeros(4))
    >>> waveform.dtype.name, back(waveform).dtype.name
    ('float32', 'float64')
    """
    values: Any = sample
    if hasattr(sample, "new_tensor"):  # a torch tensor, recognised without importing torch, which is slow
        values = values.detach().float().cpu().numpy() if values.is_floating_point() else values.cpu().numpy()
        back: Callable[[Waveform], Any] = cast("Any", sample).new_tensor
    elif isinstance(sample, np.ndarray):
        back = partial(np.asarray, dtype=sample.dtype)
    else:
        raise TypeError(f"cannot corrupt a {type(sample).__name__}; pass an array or a tensor")
    if values.dtype.kind != "f":
        raise ValueError(f"the waveform is {values.dtype}; pass floats in [-1, 1], e.g. 16-bit values divided by 32768")
    if values.ndim != 1 or not len(values):
        raise ValueError(f"the waveform has shape {values.shape}; pass one mono clip (samples,)")
    if not np.isfinite(values).all():
        raise ValueError("the waveform contains NaN or infinite values; remove this recording")
    return np.ascontiguousarray(values, np.float32), back
