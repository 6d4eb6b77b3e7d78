"""GDE: agreement of the network with itself before its last update."""

from __future__ import annotations

from torch import Tensor

from holdfast.estimators._base import ESTIMATORS, Estimator
from holdfast.estimators._observation import Observation
from holdfast.records import Estimate

__all__ = ["Gde"]


@ESTIMATORS.register("gde")
class Gde(Estimator):
    """Estimates accuracy as the agreement with the network one batch ago, on the same inputs.

    The first batch has nothing to compare with and counts as full agreement. As in AETTA's code, a reset is ignored:
    the next batch is compared with the network before the reset.
    """

    citation = "Jiang et al., ICLR 2022; as in Lee et al., CVPR 2024"
    previous: dict[str, Tensor] | None

    def __init__(self) -> None:
        super().__init__()
        self.add_state("previous", None)  # values of everything that adaptation changes

    def estimate(self, seen: Observation) -> Estimate:
        """Return the share of predictions that are the same with the previous values."""
        previous = self.previous
        self.previous = {name: tensor.detach().clone() for name, tensor in seen.moving.items()}
        if previous is None:
            return Estimate(1.0)
        return Estimate(seen.agreement(seen.logits_with(previous)))
