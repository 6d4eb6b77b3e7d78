"""Numbers that standard JSON has."""

from __future__ import annotations

import math
from typing import Any


def finite(value: Any) -> Any:
    """Return nested values with None for NaN and infinity: standard JSON has neither.

    >>> finite({"low": float("nan"), "pairs": (0.5, float("inf"))})
    {'low': None, 'pairs': [0.5, None]}
    """
    if isinstance(value, dict):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
