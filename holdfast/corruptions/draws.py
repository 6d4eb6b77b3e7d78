"""Random fields: a `RandomState` gives exactly those of the published code, a `Generator` gives faster ones.

Images have 256 levels, so 16 random bits per value are enough: a `Generator` draws 64-bit words, and each word becomes
four float32 values. A `RandomState` gives the float64 draws of the published code in its order, which parity with the
published pixels needs.
"""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from holdfast.corruptions.base import Rng


def words(rng: np.random.Generator, shape: tuple[int, ...], dtype: type[np.unsignedinteger[Any]]) -> NDArray[Any]:
    """Return random unsigned integers over the whole range of their type, cut from 64-bit words."""
    size = prod(shape)
    count = -(-size * np.dtype(dtype).itemsize // 8)
    drawn = rng.integers(0, 2**64, count, np.uint64).astype("<u8", copy=False)  # the same for every byte order
    cut: NDArray[Any] = drawn.view(np.dtype(dtype).newbyteorder("<"))[:size]
    return cut.reshape(shape)


@lru_cache(maxsize=1)
def _normal_quantiles() -> NDArray[np.float32]:
    return ndtri((np.arange(65536) + 0.5) / 65536).astype(np.float32)  # type: ignore[no-any-return]


def normal(rng: Rng, shape: tuple[int, ...]) -> NDArray[Any]:
    """Return standard normal values; a `Generator` draws each from 65536 equally likely quantiles.

    >>> bool(abs(normal(np.random.default_rng(0), (100, 100)).std() - 1) < 0.02)
    True
    """
    if isinstance(rng, np.random.RandomState):
        return rng.standard_normal(shape)
    return _normal_quantiles().take(words(rng, shape, np.uint16))


def uniform(rng: Rng, shape: tuple[int, ...]) -> NDArray[Any]:
    """Return uniform values between 0 and 1."""
    if isinstance(rng, np.random.RandomState):
        return rng.random_sample(shape)
    values = words(rng, shape, np.uint16).astype(np.float32)
    values += 0.5
    values *= 2**-16  # exact, and faster than a division
    return values


def signed_uniform(rng: Rng, shape: tuple[int, ...]) -> NDArray[Any]:
    """Return uniform values between -1 and 1: `2 * uniform(rng, shape) - 1`, in fewer operations.

    >>> first, second = (np.random.default_rng(0) for _ in range(2))
    >>> np.array_equal(signed_uniform(first, (9,)), 2 * uniform(second, (9,)) - 1)
    True
    """
    if isinstance(rng, np.random.RandomState):
        return 2 * rng.random_sample(shape) - 1
    values = words(rng, shape, np.uint16).astype(np.float32)
    values -= 32767.5
    values *= 2**-15  # both are exact
    return values


def integers(rng: Rng, low: int, high: int, shape: tuple[int, ...] = ()) -> NDArray[Any]:
    """Return uniform integers from `low` to `high` - 1."""
    if isinstance(rng, np.random.RandomState):
        return np.asarray(rng.randint(low, high, shape))
    if (high - low).bit_count() == 1 and shape and not prod(shape) % 2 and _whole_words(rng):
        # What the next line draws, in a third of the time: the upper bits of 32-bit halves.
        halves = words(rng, shape, np.uint32)
        drawn: NDArray[np.int32] = (halves >> np.uint32(33 - (high - low).bit_length())).view(np.int32)
        drawn += np.int32(low)
        return drawn
    return np.asarray(rng.integers(low, high, shape, np.int32))


def _whole_words(rng: np.random.Generator) -> bool:
    """Return whether 32-bit draws are the halves of 64-bit draws, and no half is left over."""
    return isinstance(rng.bit_generator, np.random.Philox) and not rng.bit_generator.state["has_uint32"]
