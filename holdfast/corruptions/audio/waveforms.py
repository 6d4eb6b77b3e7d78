"""The kinds of waveform a corruption takes, the way back to each of them, and lengths."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

__all__ = ["Waveform", "as_waveform", "fit_length", "store_as_pcm16"]

Waveform: TypeAlias = NDArray[np.float32]  # (samples,), mono, in [-1, 1]
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


def fit_length(waveform: Waveform, samples: int) -> Waveform:
    """Return the waveform with so many samples: in the middle of silence where it is shorter, else its beginning.

    >>> fit_length(np.ones(3, np.float32), 6).tolist()
    [0.0, 1.0, 1.0, 1.0, 0.0, 0.0]
    """
    missing = max(0, samples - len(waveform))
    return np.pad(waveform, (missing // 2, missing - missing // 2))[:samples]


def store_as_pcm16(waveform: Waveform) -> Waveform:
    """Return the waveform as it comes back from a 16-bit file: beyond ±1 it is clipped.

    >>> store_as_pcm16(np.array([-1.5, 0.5, 1.5], np.float32)).tolist()
    [-1.0, 0.5, 0.999969482421875]
    """
    return np.asarray(np.clip(np.rint(waveform * 32768), -32768, 32767) / 32768, np.float32)
