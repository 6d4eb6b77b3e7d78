"""Resets at fixed intervals."""

from __future__ import annotations

from typing import Any, ClassVar

from holdfast.options.ranges import Count
from holdfast.recovery._base import RECOVERIES, Resetting
from holdfast.restorable import Restorable


@RECOVERIES.register("periodic")
class Periodic(Resetting):
    """Resets to the source every `every_batches` batches, before the next one is predicted."""

    citation = "Press et al., NeurIPS 2023 (RDumb)"
    meanings: ClassVar = {
        "every_batches": "number of batches between resets",
    }
    batches: int

    def __init__(self, *, every_batches: Count = 1000, **reset: Any) -> None:
        super().__init__(**reset)
        self.every_batches = every_batches
        self.add_state("batches", 0)

    def begin(self, method: Restorable) -> str | None:
        """Reset if a period is over; batches without an update count too."""
        due = self.batches > 0 and self.batches % self.every_batches == 0
        self.batches += 1
        if not due:
            return None
        self.reset(method)
        return f"{self.every_batches} batches since the last reset"


@RECOVERIES.register("episodic")
class Episodic(Resetting):
    """Resets to the source before each batch, so that batches are independent."""

    citation = "Wang et al., ICLR 2021; Zhang et al., NeurIPS 2022"
    started: bool

    def __init__(self, **reset: Any) -> None:
        super().__init__(**reset)
        self.add_state("started", False)

    def begin(self, method: Restorable) -> str | None:
        """Reset, except before the very first batch."""
        if self.started:
            self.reset(method)
            return "each batch is an episode"
        self.started = True
        return None
