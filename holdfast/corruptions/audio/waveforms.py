"""The kinds of waveform a corruption takes, and the way back to each of them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar, cast

import numpy as np

from holdfast.audio import Waveform

__all__ = ["as_waveform"]

Sample = TypeVar("Sample")


def as_waveform(sample: Sample) -> tuple[Waveform, Callable[[Waveform], Sample]]:
    """Return a sample as float32 (samples,), and the function that turns such a waveform into the sample's type.

    >>> waveform, back = as_waveform(np.zeros(4))
    >>> waveform.dtype.name, back(waveform).dtype.name
    ('float32', 'float64')
    """
    values: Any = sample
    if hasattr(sample, "new_tensor"):  # a torch tensor, known by its verb: torch is too slow to import for this
        values = values.detach().float().cpu().numpy() if values.is_floating_point() else values.cpu().numpy()
        back: Callable[[Waveform], Any] = cast("Any", sample).new_tensor
    elif isinstance(sample, np.ndarray):
        back = partial(np.asarray, dtype=sample.dtype)
    else:
        raise TypeError(f"cannot corrupt the sound of a {type(sample).__name__}; pass an array or a tensor")
    if values.dtype.kind != "f":
        raise ValueError(f"the waveform holds {values.dtype}; pass values in [-1, 1], 16 bits divided by 32768")
    if values.ndim != 1 or not len(values):
        raise ValueError(f"the waveform has shape {values.shape}; pass one mono clip (samples,)")
    if not np.isfinite(values).all():
        raise ValueError("the waveform holds NaN or infinite values; leave this recording out")
    return np.ascontiguousarray(values, np.float32), back
