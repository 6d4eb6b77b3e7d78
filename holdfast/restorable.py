"""What one room may ask of another room's object."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["Pull", "Restorable"]


@dataclass(frozen=True)
class Pull:
    """A penalty Σ s (θ − c)² on the trained parameters, tensor by tensor."""

    strengths: Sequence[Tensor]
    centres: Sequence[Tensor]


class Restorable(Protocol):
    """What a recovery may do to a method: return to the source, in whole or in part, or to an earlier state."""

    def pull_towards(self, pull: Pull | None) -> None:
        """Add a penalty to the gradient of the next updates; the parameters keep the gradient of the loss alone."""

    @property
    def trained(self) -> Sequence[Tensor]:
        """The trained parameters, from the input of the network to its output, with their last gradients."""

    def reset(self) -> None:
        """Return to the state at construction: weights, statistics, optimiser and declared state."""

    def reset_weights(self) -> None:
        """Return weights, statistics and optimiser to the source; declared state, such as a memory, stays."""

    def reset_after(self, kept: int) -> None:
        """Return to the source, except that the first `kept` trained parameters keep their values."""

    def move_anchor(self, kept: int) -> None:
        """Keep all weights, and average them from now on with the first `kept` of them and the source of the rest."""

    def restore(self, mask: Callable[[Tensor, Tensor | None], Tensor]) -> None:
        """Return single weights to the source, where `mask(weight, last_gradient)` is true."""

    def snapshot(self) -> dict[str, Any]:
        """Return a copy of all that adaptation has changed: weights, statistics, optimiser and declared state."""

    def return_to(self, snapshot: Mapping[str, Any]) -> None:
        """Return to a snapshot exactly."""
