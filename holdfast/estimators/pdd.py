"""PDD: plain disagreement under dropout."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Literal

from torch import Tensor

from holdfast.estimators.base import ESTIMATORS, Estimator
from holdfast.estimators.dropout import Dropout
from holdfast.estimators.observation import Observation
from holdfast.models.classifier import Classifier

__all__ = ["Pdd"]


@ESTIMATORS.register("pdd")
class Pdd(Estimator):
    """Takes the share of answers that stay the same under dropout for the accuracy: AETTA with α = 0, not smoothed.

    Beside `aetta` with the same points, rate, masks and seed it costs nothing.
    """

    citation = "Lee et al., CVPR 2024"

    def __init__(
        self,
        *,
        points: Literal["stages", "features"] | Sequence[str] = "stages",
        rate: float | Literal["fitted"] | None = None,
        masks: int = 10,
        source_error: float | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__()
        self.points, self.rate, self.masks, self.source_error, self.seed = points, rate, masks, source_error, seed
        self.dropout = Dropout(points=points, rate=rate, masks=masks, source_error=source_error, seed=seed)

    @property
    def needs(self) -> Literal["nothing", "inputs"]:
        """Inputs of the source, where the rate is to be fitted."""
        return self.dropout.needs

    def fit(self, batches: Sequence[tuple[Tensor, Tensor | None]], model: Classifier) -> None:
        """Fit the rate of the dropout."""
        self.dropout.fit(batches, model)

    def replays(self, model: Classifier) -> Collection[str]:
        """Return the parts before the first dropout."""
        return self.dropout.places(model).finished

    def estimate(self, seen: Observation) -> float:
        """Return the share of samples and masks for which the answer stays the same."""
        return seen.agreement(self.dropout.logits(seen))
