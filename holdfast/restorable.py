"""What one room may ask of another room's object."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["Restorable"]


class Restorable(Protocol):
    """All that a recovery may do to a method: go back to the source, in whole or in part, or back in time."""

    @property
    def trained(self) -> Sequence[Tensor]:
        """The parameters that are adapted, from the input of the network to its output, with their last gradients."""

    def reset(self) -> None:
        """Return to the state at construction: weights, statistics, optimiser and declared state."""

    def restore(self, mask: Callable[[Tensor, Tensor | None], Tensor]) -> None:
        """Return single weights to the source: `mask(weight, last_gradient)` is true where to."""

    def snapshot(self) -> dict[str, Tensor]:
        """Return a copy of all that adaptation has moved away from the source, by name."""

    def return_to(self, snapshot: Mapping[str, Tensor]) -> None:
        """Return to a snapshot: weights and statistics; the optimiser starts afresh."""
