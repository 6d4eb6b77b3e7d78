"""Keep freed memory in the process: the activations of one batch are as large as those of the next."""

from __future__ import annotations

import ctypes
import functools
import sys

TRIM_THRESHOLD, MAP_THRESHOLD = -1, -3  # parameters of mallopt, see malloc.h
LARGEST = 2**31 - 1  # bytes that stay
LARGEST_MAP = 32 * 2**20  # larger blocks are mapped, and returned at once


@functools.cache
def keep_freed_memory() -> bool:
    """Let the C library return no freed memory to the system in this process, and return whether it can.

    By default glibc returns the activations after every update, and the system clears the same pages for the next
    prediction: a tenth of its time (`docs/serving.md`). Other C libraries are left as they are.
    """
    if not sys.platform.startswith("linux"):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    return mallopt is not None and bool(mallopt(TRIM_THRESHOLD, LARGEST) and mallopt(MAP_THRESHOLD, LARGEST_MAP))
