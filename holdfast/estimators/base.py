"""Estimator: accuracy without labels."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

from torch import Tensor

from holdfast.models.classifier import Classifier
from holdfast.registry import Registry
from holdfast.state import Stateful

__all__ = ["ESTIMATORS", "Estimator"]


class Estimator(Stateful):
    """Estimates the accuracy of the network that gave an answer, before it is updated, and leaves it as it was."""

    citation: ClassVar[str] = ""

    @abstractmethod
    def estimate(self, inputs: Tensor, logits: Tensor, model: Classifier) -> float:
        """Return the estimated accuracy on this batch, between 0 and 1."""


ESTIMATORS: Registry[type[Estimator]] = Registry("estimator", "estimators")
