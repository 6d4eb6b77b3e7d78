"""No recovery."""

from __future__ import annotations

from holdfast.recovery._base import RECOVERIES, Recovery


@RECOVERIES.register("never")
class Never(Recovery):
    """Never resets."""
