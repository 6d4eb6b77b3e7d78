"""What one room may ask of another room's object."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Pull:
    """A penalty Σ s (θ − c)² on trained parameters, tensor by tensor."""

    weights: Sequence[Tensor]
    strengths: Sequence[Tensor]
    centres: Sequence[Tensor]


class Pullable(Protocol):
    """An optimiser whose steps can be pulled."""

    def pull_towards(self, pull: Pull | None) -> None:
        """Add a penalty to the gradient of the next steps; the parameters keep the gradient of the loss alone."""


class Restorable(Protocol):
    """What a recovery may do to a method: return to the source, in whole or in part, or to an earlier state."""

    @property
    def trained(self) -> Sequence[Tensor]:
        """The trained parameters, from the input of the network to its output, with their last gradients."""

    @property
    def stepper(self) -> Pullable | None:
        """The optimiser of the trained parameters; None if there are none."""

    def reset(self, keeping: Sequence[Tensor] | None = None) -> None:
        """Return to the state at construction, all but trained parameters that may be kept."""

    def reset_weights(self) -> None:
        """Return weights, statistics and optimiser to the source; declared state, such as a memory, stays."""

    def restore(self, mask: Callable[[Tensor, Tensor | None], Tensor]) -> None:
        """Return single weights to the source, where `mask(weight, last_gradient)` is true."""

    def snapshot(self) -> dict[str, Any]:
        """Return a copy of all that adaptation has changed: weights, statistics, optimiser and declared state."""

    def return_to(self, snapshot: Mapping[str, Any]) -> None:
        """Return to a snapshot exactly."""


@runtime_checkable
class Averaging(Protocol):
    """A method that averages its weights with others after each step, at first with those of the source."""

    def average_with(self, first: Sequence[Tensor]) -> None:
        """Average from now on with these values of the first trained parameters, and the source of the rest."""
