"""Finding: one thing that was checked, with a status and a remedy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

Status: TypeAlias = Literal["ok", "warn", "fail"]


@dataclass(frozen=True)
class Finding:
    """The result of one check: ok, warn or fail, what was observed, and what to do about it."""

    check: str
    status: Status
    observed: str
    remedy: str = ""
