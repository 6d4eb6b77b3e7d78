"""What one room may ask of another room's object."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["Restorable"]


class Restorable(Protocol):
    """What a recovery may do to a method: return to the source, in whole or in part, or to an earlier state."""

    @property
    def trained(self) -> Sequence[Tensor]:
        """The trained parameters, from the input of the network to its output, with their last gradients."""

    def reset(self) -> None:
        """Return to the state at construction: weights, statistics, optimiser and declared state."""

    def restore(self, mask: Callable[[Tensor, Tensor | None], Tensor]) -> None:
        """Return single weights to the source, where `mask(weight, last_gradient)` is true."""

    def snapshot(self) -> dict[str, Any]:
        """Return a copy of all that adaptation has changed: weights, statistics, optimiser and declared state."""

    def return_to(self, snapshot: Mapping[str, Any]) -> None:
        """Return to a snapshot exactly."""
