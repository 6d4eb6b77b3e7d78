"""Which version of the source code a run was made with."""

from __future__ import annotations

import subprocess
from pathlib import Path

import holdfast


def commit_of(folder: Path | None = None) -> str | None:
    """Return the commit that git has checked out around a folder, by default this package; None for an installed one.

    Changes that are not committed are not seen.
    """
    start = Path(holdfast.__file__).resolve().parent if folder is None else folder
    try:
        asked = subprocess.run(
            ["git", "-C", str(start), "rev-parse", "HEAD"], capture_output=True, text=True, timeout=10, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return asked.stdout.strip()
