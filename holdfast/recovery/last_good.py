"""Back in time instead of back to the source."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch import Tensor

from holdfast.records import Step
from holdfast.recovery._base import RECOVERIES, Recovery
from holdfast.restorable import Restorable

__all__ = ["LastGood"]


@RECOVERIES.register("last_good")
class LastGood(Recovery):
    """Lets another recovery decide when to go back, and goes to the newest snapshot from before the trouble.

    A snapshot of all that adaptation moves is taken every so many batches and trusted when it is `settled_batches` old
    at the time of a reset. It is used once: the next reset goes further back, and at last to the source. All of it is
    ours.
    """

    ring: list[dict[str, Any]]
    batches: int

    def __init__(
        self,
        *,
        trigger: str = "estimate_drop",
        trigger_options: Mapping[str, Any] | None = None,
        every_batches: int = 10,
        snapshots: int = 4,
        settled_batches: int = 10,
    ) -> None:
        super().__init__()
        if every_batches < 1 or snapshots < 1:
            raise ValueError(
                f"every_batches={every_batches} and snapshots={snapshots} keep nothing to go back to; pass at least 1"
            )
        self.trigger, self.trigger_options = trigger, dict(trigger_options or {})
        self.every_batches, self.snapshots, self.settled_batches = every_batches, snapshots, settled_batches
        self.decider = RECOVERIES[trigger](**self.trigger_options)
        self.add_state("ring", [])  # {"batch": when, "values": what}, the oldest first
        self.add_state("batches", 0)

    @property
    def reads(self) -> Sequence[str]:
        """What the other recovery reads."""
        return self.decider.reads

    @property
    def reads_gain(self) -> bool:
        """Whether the other recovery does."""
        return self.decider.reads_gain

    def enter_domain(self, domain: str) -> None:
        """Pass it on."""
        self.decider.enter_domain(domain)

    def begin(self, method: Restorable) -> str | None:
        """Go back where the other recovery would, before a batch is answered."""
        rewinding = Rewinding(method, self)
        return rewinding.told(self.decider.begin(rewinding))

    def recover(self, method: Restorable, step: Step) -> str | None:
        """Go back where the other recovery would, and otherwise keep a snapshot when it is time for one."""
        self.batches += 1
        rewinding = Rewinding(method, self)
        reason = rewinding.told(self.decider.recover(rewinding, step))
        if reason is None and self.batches % self.every_batches == 0:
            snapshot = {"batch": self.batches, "values": method.snapshot()}
            self.ring = [*self.ring, snapshot][-self.snapshots :]
        return reason

    def rewind(self, method: Restorable) -> str:
        """Return to the newest settled snapshot, forget it and all after it, and say where that was."""
        settled = [entry for entry in self.ring if self.batches - entry["batch"] >= self.settled_batches]
        self.ring = settled[:-1]
        if not settled:
            method.reset()
            return "to the source"
        method.return_to(settled[-1]["values"])
        return f"by {self.batches - settled[-1]['batch']} batches"


class Rewinding:
    """A method whose resets go to the last good state."""

    def __init__(self, method: Restorable, ring: LastGood) -> None:
        self._method, self._ring, self._where = method, ring, ""

    @property
    def trained(self) -> Sequence[Tensor]:
        """The parameters that are adapted."""
        return self._method.trained

    def reset(self) -> None:
        """Go to the last good state."""
        self._where = self._ring.rewind(self._method)

    def restore(self, mask: Callable[[Tensor, Tensor | None], Tensor]) -> None:
        """Return single weights to the source."""
        self._method.restore(mask)

    def snapshot(self) -> dict[str, Tensor]:
        """Return a copy of all that moves."""
        return self._method.snapshot()

    def return_to(self, snapshot: Mapping[str, Tensor]) -> None:
        """Return to a snapshot."""
        self._method.return_to(snapshot)

    def told(self, reason: str | None) -> str | None:
        """Return a reason with where it led to."""
        return f"{reason}; back {self._where}" if reason and self._where else reason
