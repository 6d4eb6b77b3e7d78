"""Estimator: accuracy without labels."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Sequence
from typing import ClassVar, Literal

from torch import Tensor

from holdfast.estimators._observation import Observation
from holdfast.models.classifier import Classifier
from holdfast.records import Estimate
from holdfast.registry import Registry
from holdfast.state import Stateful

__all__ = ["ESTIMATORS", "Estimator"]


class Estimator(Stateful):
    """Estimates the accuracy of the network that gave an answer, before it is updated, and leaves it as it was."""

    citation: ClassVar[str] = ""

    @property
    def needs(self) -> Literal["nothing", "anything", "inputs", "labels"]:
        """What it must be shown of the source before the first batch, to `fit` it; "anything" may be nothing, too."""
        return "nothing"

    @property
    def compares(self) -> bool:
        """Whether its estimates come with a `gain` over the network without its adaptation."""
        return False

    def prepare(self, source: Classifier) -> None:
        """Look at the source network before any method has touched it; what is wanted of it later is copied."""

    def fit(self, batches: Sequence[tuple[Tensor, Tensor | None]], model: Classifier) -> None:
        """Learn from held-out source inputs, and their labels where it needs them, once, before the first batch."""

    def replays(self, model: Classifier) -> Collection[str]:
        """Return the parts of the network whose outputs, in the pass that answers, it would use again."""
        return ()

    @abstractmethod
    def estimate(self, seen: Observation) -> Estimate:
        """Return the estimated accuracy on this batch, between 0 and 1, or why it is unknown."""


ESTIMATORS: Registry[type[Estimator]] = Registry("estimator", "estimators")
