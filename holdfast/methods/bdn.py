"""BDN: the normalisation of UniTTA without its neighbour averages."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor

from holdfast.methods._base import METHODS
from holdfast.methods._by_domain import ByDomain


@METHODS.register("bdn")
class Bdn(ByDomain):
    """Detect the domains of a stream and normalise each with a uniform mixture of its class statistics.

    The options are those of `unitta`. The official filter is correct here, so `filter="fixed"` equals `"official"`.
    """

    citation = "Du et al., 2024 (UniTTA)"
    use_when = "domains alternate or recur, and the classes of neighbouring samples are unrelated"
    presets: ClassVar = {
        "cifar10-c": {"class_momentum": 0.01},
        "cifar100-c": {"class_momentum": 0.05},
        "imagenet-c": {"class_momentum": 0.5},
    }

    def classify_pass(self, inputs: Tensor, turn: int) -> Tensor:
        """Return the log-probabilities of one pass."""
        logits: Tensor = self.model(inputs)
        return logits.log_softmax(1)
