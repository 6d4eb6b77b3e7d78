"""Reset when the domain changes: for benchmarks, which know it."""

from __future__ import annotations

from holdfast.recovery._base import RECOVERIES, Recovery
from holdfast.restorable import Restorable

__all__ = ["Oracle"]


@RECOVERIES.register("oracle")
class Oracle(Recovery):
    """Resets to the source before the first batch of another domain than the last one it was told of.

    It is told by a benchmark (`AdaptedModel.enter_domain`) and never sees a label; whoever deploys a model has nobody
    to tell it.
    """

    citation = "DistShift, as in Lee et al., CVPR 2024 (AETTA)"
    domain: str | None
    left: str | None

    def __init__(self) -> None:
        super().__init__()
        self.add_state("domain", None)
        self.add_state("left", None)  # the domain before, until the reset that it calls for

    def enter_domain(self, domain: str) -> None:
        """Take note of another domain."""
        if self.domain not in (None, domain):
            self.left = self.domain
        self.domain = domain

    def begin(self, method: Restorable) -> str | None:
        """Reset where a domain was left."""
        if self.left is None:
            return None
        reason = f"told that {self.domain} follows {self.left}"
        self.left = None
        method.reset()
        return reason
