"""Recovery: the interface of rules that reset an adapted model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Literal, TypeAlias

from holdfast.records import Step
from holdfast.registry import Registry
from holdfast.restorable import Restorable
from holdfast.state import Stateful

ResetScope: TypeAlias = Literal["full", "aetta"]


class Recovery(Stateful):
    """Decides without labels when to restore an adapted model; each decision returns its reason, or None."""

    citation: ClassVar[str] = ""
    meanings: ClassVar[Mapping[str, str]] = {}  # of the options of this class

    @property
    def reads(self) -> Sequence[str]:
        """The names of the estimators whose estimates it reads."""
        return ()

    @property
    def reads_gain(self) -> bool:
        """Whether it reads the `gain` of these estimates, which only estimators that compare give."""
        return False

    @property
    def compares(self) -> bool:
        """Whether it compares predictions with those of the source weights, which costs a forward pass."""
        return False

    def enter_domain(self, domain: str) -> None:
        """Receive the name of the next domain from a benchmark; only an oracle uses it."""

    def begin(self, method: Restorable) -> str | None:
        """Restore before a batch is predicted, for recoveries that follow a schedule."""
        return None

    def recover(self, method: Restorable, step: Step) -> str | None:
        """Restore after the update on a batch, for recoveries that follow its outcome."""
        return None


class Resetting(Recovery):
    """A recovery that returns the whole network to the source."""

    meanings: ClassVar = {
        "scope": "what a reset returns: full, all that adaptation has changed; aetta, all but memories and means",
    }

    def __init__(self, *, scope: ResetScope = "full") -> None:
        super().__init__()
        self.scope = scope

    def reset(self, method: Restorable) -> None:
        """Return a method to the source; with the scope `aetta`, as that paper's code does.

        There the memory of RoTTA and SoTTA and the mean prediction of EATA survive, and so does the momentum of methods
        with a sharpness-aware optimiser (`keep_momentum`, part of their presets `aetta`).
        """
        if self.scope == "full":
            method.reset()
        else:
            method.reset_weights()


RECOVERIES: Registry[type[Recovery]] = Registry("recovery", "recovery")
