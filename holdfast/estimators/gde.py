"""GDE: agreement with oneself, one update ago."""

from __future__ import annotations

from torch import Tensor

from holdfast.estimators._base import ESTIMATORS, Estimator
from holdfast.estimators._observation import Observation
from holdfast.records import Estimate

__all__ = ["Gde"]


@ESTIMATORS.register("gde")
class Gde(Estimator):
    """Takes the agreement of the network with itself as it was one batch ago, on the same inputs, for the accuracy.

    The first batch has nothing to compare with and counts as agreement. As in AETTA's code a recovery is not noticed:
    the batch after it compares with the network before it.
    """

    citation = "Jiang et al., ICLR 2022; as in Lee et al., CVPR 2024"
    previous: dict[str, Tensor] | None

    def __init__(self) -> None:
        super().__init__()
        self.add_state("previous", None)  # values of all that moves in the network

    def estimate(self, seen: Observation) -> Estimate:
        """Return the share of answers that the previous values give too."""
        previous = self.previous
        self.previous = {name: tensor.detach().clone() for name, tensor in seen.moving.items()}
        if previous is None:
            return Estimate(1.0)
        return Estimate(seen.agreement(seen.logits_with(previous)))
