"""GDE: agreement with the network before its last update, or with one that was trained independently."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn

from holdfast.estimators._base import ESTIMATORS, Estimator
from holdfast.estimators._observation import Observation
from holdfast.models import MODELS
from holdfast.models.classifier import Classifier, weights_digest
from holdfast.options.spec import Spec
from holdfast.records import Estimate


@ESTIMATORS.register("gde")
class Gde(Estimator):
    """Estimates accuracy as the agreement with the network one batch ago, on the same inputs.

    The first batch has nothing to compare with and counts as full agreement. As in AETTA's code, a reset is ignored:
    the next batch is compared with the network before the reset.

    With `network` it is the original estimator of Jiang et al. (AETTA, Appendix B): the agreement with another network
    for the same classes, trained with another seed or other data. It is a module, or a name or mapping as in a suite;
    it predicts as it is and does not adapt. The estimate is right if the two together are calibrated.
    """

    citation = "Jiang et al., ICLR 2022; as in Lee et al., CVPR 2024"
    previous: dict[str, Tensor] | None

    def __init__(self, *, network: nn.Module | str | Mapping[str, Any] | None = None) -> None:
        super().__init__()
        made = network if network is None or isinstance(network, nn.Module) else Spec.parse(network).build(MODELS)
        self.other: nn.Module | None = None if made is None else made.eval().requires_grad_(False)
        # In a saved state a module is named by its weights.
        self.network = f"weights {weights_digest(network)}" if isinstance(network, nn.Module) else network
        self.add_state("previous", None)  # values of everything that adaptation changes

    def passes(self, batch_size: int) -> float:
        """Return one pass of the network before its last update."""
        return 1.0

    def prepare(self, source: Classifier) -> None:
        """Move the other network to the device of this one, and check that it predicts the same classes."""
        if self.other is None:
            return
        self.other.to(source.device)
        logits = source.read(self.other(source.trial_inputs()), 2)
        if logits.shape[1] != source.num_classes:
            raise ValueError(
                f"network must predict the {source.num_classes} classes of the adapted one, got {logits.shape[1]}"
            )

    def estimate(self, seen: Observation) -> Estimate:
        """Return the share of predictions that are the same."""
        if self.other is not None:
            return Estimate(seen.agreement(seen.model.read(self.other(seen.inputs), len(seen.inputs))))
        previous = self.previous
        self.previous = {name: tensor.detach().clone() for name, tensor in seen.moving.items()}
        if previous is None:
            return Estimate(1.0)
        return Estimate(seen.agreement(seen.logits_with(previous)))
