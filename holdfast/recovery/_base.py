"""Recovery: when and how to go back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from holdfast.records import Step
from holdfast.registry import Registry
from holdfast.restorable import Restorable
from holdfast.state import Stateful

__all__ = ["RECOVERIES", "Recovery"]


class Recovery(Stateful):
    """Decides, without labels, when an adapted model goes back; each decision returns its reason, or None."""

    citation: ClassVar[str] = ""

    @property
    def reads(self) -> Sequence[str]:
        """The estimators, by name, whose estimates it decides by."""
        return ()

    @property
    def reads_gain(self) -> bool:
        """Whether it decides by their `gain`, so that only estimators that compare are of use to it."""
        return False

    def enter_domain(self, domain: str) -> None:
        """Be told which domain comes next; only an oracle listens."""

    def begin(self, method: Restorable) -> str | None:
        """Go back before a batch is answered: for recoveries that follow the clock."""
        return None

    def recover(self, method: Restorable, step: Step) -> str | None:
        """Go back after a batch was learnt from: for recoveries that follow the evidence."""
        return None


RECOVERIES: Registry[type[Recovery]] = Registry("recovery", "recovery")
