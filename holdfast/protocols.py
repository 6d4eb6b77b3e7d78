"""What one room may ask of another room's object."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["Restorable"]


class Restorable(Protocol):
    """All that a recovery may do to a method: go back to the source, in whole or in part."""

    def reset(self) -> None:
        """Return to the state at construction: weights, statistics, optimiser and declared state."""

    def restore(self, mask: Callable[[Tensor, Tensor | None], Tensor]) -> None:
        """Return single weights to the source: `mask(weight, last_gradient)` is true where to."""
