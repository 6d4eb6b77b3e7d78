"""How much memory a run has needed so far."""

from __future__ import annotations

import resource
import sys

__all__ = ["MARKS", "peak_mib"]

MARKS = (0.1, 0.5, 1.0)  # shares of a run after which its peak is noted: one that grows has a leak


def peak_mib() -> float:
    """Return the most memory that this process has ever held at once.

    >>> peak_mib() > 1
    True
    """
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return round(peak / (2**20 if sys.platform == "darwin" else 2**10), 1)  # bytes there, kibibytes elsewhere
