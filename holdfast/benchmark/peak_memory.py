"""How much memory a run has needed so far."""

from __future__ import annotations

import contextlib
import resource
import sys
from pathlib import Path

__all__ = ["MARKS", "forget_peak", "peak_mib"]

MARKS = (0.1, 0.5, 1.0)  # shares of a run after which its peak is noted: one that grows has a leak


def forget_peak() -> None:
    """Begin a new peak, where the system lets a process do that (Linux), so that one run does not show another's."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def peak_mib() -> float:
    """Return the most memory that this process has held at once since `forget_peak`, or ever.

    >>> peak_mib() > 1
    True
    """
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return round(peak / (2**20 if sys.platform == "darwin" else 2**10), 1)  # bytes there, kibibytes elsewhere
