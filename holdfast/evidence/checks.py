"""Check observations before they change anything."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray


def numbers_within(values: ArrayLike, lowest: float, highest: float, what: str) -> NDArray[np.float64]:
    """Return numbers as a flat array, or raise a ValueError that names the first one out of range.

    >>> numbers_within(0.5, 0, 1, "a loss")
    array([0.5])
    """
    numbers = np.atleast_1d(np.asarray(values, np.float64))
    if numbers.ndim != 1:
        raise ValueError(f"{what} must be one number or a flat list, got an array of shape {numbers.shape}")
    outside = ~((numbers >= lowest) & (numbers <= highest))  # true of nan too
    if outside.any():
        raise ValueError(f"{what} must be between {lowest:g} and {highest:g}, got {numbers[outside][0]:g}")
    return numbers


def class_or_none(label: Any, correct: Any = None, *, classes: int | None = None) -> int | None:
    """Return a label as an integer, or None; raise unless it is a class, or `correct` a bool without a label.

    >>> class_or_none(3), class_or_none(None, True), class_or_none(np.int64(2), classes=3)
    (3, None, 2)
    >>> class_or_none(3.7, classes=10)
    Traceback (most recent call last):
    ValueError: label must be a class from 0 to 9, or None, got 3.7
    """
    if correct is not None and not isinstance(correct, (bool, np.bool_)):
        raise ValueError(f"correct must be True or False, got {correct!r}")
    if label is None:
        return None
    if correct is not None:
        raise ValueError(f"give label or correct, not both, got {label!r} and {correct!r}")
    known = "a class from 0 on" if classes is None else f"a class from 0 to {classes - 1}"
    plain = label.tolist() if hasattr(label, "tolist") else label  # of NumPy and PyTorch
    try:
        index = -1 if isinstance(plain, bool) else operator.index(plain)
    except TypeError:
        index = -1
    if index < 0 or (classes is not None and index >= classes):
        raise ValueError(f"label must be {known}, or None, got {label!r}")
    return index
