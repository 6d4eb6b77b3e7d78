"""The peak memory of a run."""

from __future__ import annotations

import contextlib
import resource
import sys
from pathlib import Path

MARKS = (0.1, 0.5, 1.0)  # shares of a run after which the peak is recorded; a growing peak is a leak


def forget_peak() -> None:
    """Reset the peak where the system allows it (Linux), so that a run does not report that of the run before."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def peak_mib() -> float:
    """Return the peak memory of this process in MiB, since `forget_peak` where that has an effect.

    >>> peak_mib() > 1
    True
    """
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return round(peak / (2**20 if sys.platform == "darwin" else 2**10), 1)  # bytes there, kibibytes elsewhere
