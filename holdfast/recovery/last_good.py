"""Return to an earlier state of the model instead of to the source."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from torch import Tensor

from holdfast.options.problems import check
from holdfast.options.ranges import Count, Whole
from holdfast.records import Step
from holdfast.recovery._base import RECOVERIES, Recovery
from holdfast.restorable import Pullable, Restorable


@RECOVERIES.register("last_good")
class LastGood(Recovery):
    """Lets another recovery decide when to reset, and returns to a snapshot from before the trouble instead.

    Every `every_batches` batches it takes a snapshot of all that adaptation changes: weights, statistics, optimiser and
    declared state. A reset returns exactly to the newest one that is at least `settled_batches` old. Each is used once:
    the next reset goes further back, and finally to the source. Ours.
    """

    meanings: ClassVar = {
        "trigger": "name of the recovery that decides when to reset",
        "trigger_options": "options of that recovery",
        "every_batches": "number of batches between snapshots",
        "snapshots": "number of snapshots kept",
        "settled_batches": "age from which a snapshot may be returned to, in batches",
    }

    ring: list[dict[str, Any]]
    batches: int

    def __init__(
        self,
        *,
        trigger: str = "estimate_drop",
        trigger_options: Mapping[str, Any] | None = None,
        every_batches: Count = 10,
        snapshots: Count = 4,
        settled_batches: Whole = 10,
    ) -> None:
        super().__init__()
        self.trigger, self.trigger_options = trigger, dict(trigger_options or {})
        self.every_batches, self.snapshots, self.settled_batches = every_batches, snapshots, settled_batches
        check(RECOVERIES[trigger], self.trigger_options, owner=f"recovery {trigger!r}")
        self.decider = RECOVERIES[trigger](**self.trigger_options)
        self.add_state("ring", [])  # {"batch": number, "values": snapshot}, the oldest first
        self.add_state("batches", 0)

    @property
    def reads(self) -> Sequence[str]:
        """The estimators that the other recovery reads."""
        return self.decider.reads

    @property
    def reads_gain(self) -> bool:
        """Whether the deciding recovery reads a gain."""
        return self.decider.reads_gain

    def enter_domain(self, domain: str) -> None:
        """Announce the next domain to the other recovery."""
        self.decider.enter_domain(domain)

    @property
    def compares(self) -> bool:
        """Whether the deciding recovery compares predictions with those of the source weights."""
        return self.decider.compares

    def begin(self, method: Restorable) -> str | None:
        """Return to a snapshot when the other recovery would reset before a batch."""
        rewinding = Rewinding(method, self)
        return rewinding.explained(self.decider.begin(rewinding))

    def recover(self, method: Restorable, step: Step) -> str | None:
        """Return to a snapshot when the other recovery would reset; otherwise take one when it is due."""
        self.batches += 1
        rewinding = Rewinding(method, self)
        reason = rewinding.explained(self.decider.recover(rewinding, step))
        if reason is None and self.batches % self.every_batches == 0:
            snapshot = {"batch": self.batches, "values": method.snapshot()}
            self.ring = [*self.ring, snapshot][-self.snapshots :]
        return reason

    def rewind(self, method: Restorable) -> str:
        """Return to the newest settled snapshot, drop it and all later ones, and return how far back that was."""
        settled = [entry for entry in self.ring if self.batches - entry["batch"] >= self.settled_batches]
        self.ring = settled[:-1]
        if not settled:
            method.reset()
            return "to the source"
        method.return_to(settled[-1]["values"])
        return f"by {self.batches - settled[-1]['batch']} batches"


class Rewinding:
    """A method whose reset returns to the last good state."""

    def __init__(self, method: Restorable, ring: LastGood) -> None:
        self._method, self._ring, self._where = method, ring, ""

    @property
    def trained(self) -> Sequence[Tensor]:
        """The trained parameters."""
        return self._method.trained

    @property
    def stepper(self) -> Pullable | None:
        """The optimiser of the method."""
        return self._method.stepper

    def reset(self, keeping: Sequence[Tensor] | None = None) -> None:
        """Return to the last good state, in whole."""
        self._where = self._ring.rewind(self._method)

    def reset_weights(self) -> None:
        """Return to the last good state, in whole."""
        self.reset()

    def restore(self, mask: Callable[[Tensor, Tensor | None], Tensor]) -> None:
        """Reset single weights to the source."""
        self._method.restore(mask)

    def snapshot(self) -> dict[str, Any]:
        """Return a copy of all that adaptation has changed."""
        return self._method.snapshot()

    def return_to(self, snapshot: Mapping[str, Any]) -> None:
        """Return to a snapshot."""
        self._method.return_to(snapshot)

    def explained(self, reason: str | None) -> str | None:
        """Return the reason with how far back the model went."""
        return f"{reason}; back {self._where}" if reason and self._where else reason
