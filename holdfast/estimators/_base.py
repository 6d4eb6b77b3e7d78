"""Estimator: the interface of accuracy without labels."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Sequence
from typing import ClassVar, Literal

from torch import Tensor

from holdfast.anchor import Reference
from holdfast.estimators._observation import Observation
from holdfast.models.classifier import Classifier
from holdfast.records import Estimate
from holdfast.registry import Registry
from holdfast.state import Stateful


class Estimator(Stateful):
    """Estimates the accuracy of the predicting network before its update, and leaves the network unchanged."""

    citation: ClassVar[str] = ""
    uses_reference: ClassVar[bool] = False  # follows inputs from the moments of the source's own data, if it is told

    @property
    def needs(self) -> Literal["nothing", "anything", "inputs", "labels"]:
        """The held-out source data that `fit` needs before the first batch; "anything": optional, used if given."""
        return "nothing"

    @property
    def compares(self) -> bool:
        """Whether its estimates have a `gain` over the source."""
        return False

    @property
    def shares(self) -> str:
        """A name for its passes: estimators of the same name use the same ones."""
        return type(self).__name__

    def passes(self, batch_size: int) -> float:
        """Return its forward passes for each sample of a batch, besides the prediction; a backward pass is two."""
        return 0.0

    def prepare(self, source: Classifier) -> None:
        """Receive the source network before a method changes it; copy what is needed later."""

    def refer_to(self, reference: Reference) -> None:
        """Receive the moments of the source's own data, before `fit`, for an estimator that follows inputs."""

    def fit(self, batches: Sequence[tuple[Tensor, Tensor | None]], model: Classifier) -> None:
        """Fit to held-out source inputs, with labels if it needs them, once, before the first batch."""

    def reuses(self, model: Classifier) -> Collection[str]:
        """Return the parts of the network whose outputs it reuses from the predicting pass."""
        return ()

    @abstractmethod
    def estimate(self, seen: Observation) -> Estimate:
        """Return the estimated accuracy on this batch, between 0 and 1, or why it is unknown."""


ESTIMATORS: Registry[type[Estimator]] = Registry("estimator", "estimators")
