"""Reset at every change of domain, for benchmarks that know the domains."""

from __future__ import annotations

from typing import Any

from holdfast.recovery._base import RECOVERIES, Resetting
from holdfast.restorable import Restorable


@RECOVERIES.register("oracle")
class Oracle(Resetting):
    """Resets to the source before the first batch of a new domain.

    A benchmark announces domains with `AdaptedModel.enter_domain`; in deployment they are unknown. Labels are never
    used.
    """

    citation = "DistShift, as in Lee et al., CVPR 2024 (AETTA)"
    domain: str | None
    left: str | None

    def __init__(self, **reset: Any) -> None:
        super().__init__(**reset)
        self.add_state("domain", None)
        self.add_state("left", None)  # the previous domain, until the reset is done

    def enter_domain(self, domain: str) -> None:
        """Remember the new domain and the one before it."""
        if self.domain not in (None, domain):
            self.left = self.domain
        self.domain = domain

    def begin(self, method: Restorable) -> str | None:
        """Reset if the domain has changed."""
        if self.left is None:
            return None
        reason = f"told that {self.domain} follows {self.left}"
        self.left = None
        self.reset(method)
        return reason
