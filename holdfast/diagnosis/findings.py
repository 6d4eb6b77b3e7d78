"""Finding: one thing that was checked, with a verdict and a remedy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

__all__ = ["Finding", "Verdict"]

Verdict: TypeAlias = Literal["ok", "warn", "fail"]


@dataclass(frozen=True)
class Finding:
    """The result of one check: ok, warn or fail, what was found, and what to do about it."""

    check: str
    verdict: Verdict
    found: str
    remedy: str = ""
