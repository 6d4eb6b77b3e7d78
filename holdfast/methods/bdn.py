"""BDN: the normalisation of UniTTA on its own."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor

from holdfast.methods._base import METHODS
from holdfast.methods._by_domain import ByDomain

__all__ = ["Bdn"]


@METHODS.register("bdn")
class Bdn(ByDomain):
    """Finds the domains of a stream by itself and normalises each with the even mixture of its classes.

    Options as of `unitta`; the official code's filter works here, so `filter="fixed"` is the same as `"official"`.
    """

    citation = "Du et al., 2024 (UniTTA)"
    use_when = "domains alternate or come back, and neighbours in the stream are of unrelated classes"
    presets: ClassVar = {
        "cifar10-c": {"class_momentum": 0.01},
        "cifar100-c": {"class_momentum": 0.05},
        "imagenet-c": {"class_momentum": 0.5},
    }

    def classify_pass(self, inputs: Tensor, turn: int) -> Tensor:
        """Return the log-probabilities of one pass."""
        logits: Tensor = self.model(inputs)
        return logits.log_softmax(1)
