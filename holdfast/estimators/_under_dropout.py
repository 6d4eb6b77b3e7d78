"""The base of estimators that compare predictions under dropout."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Literal

from torch import Tensor

from holdfast.estimators._base import Estimator
from holdfast.estimators._dropout import Dropout
from holdfast.models.classifier import Classifier
from holdfast.options.ranges import Count, Momentum, Share


class UnderDropout(Estimator):
    """An estimator with its own dropout; `points`, `rate`, `masks` and `source_error` are those of `Dropout`."""

    citation = "Lee et al., CVPR 2024"

    def __init__(
        self,
        *,
        points: Literal["stages", "features"] | Sequence[str] = "stages",
        rate: Momentum | Literal["fitted"] | None = None,
        masks: Count = 10,
        source_error: Share | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__()
        self.points, self.rate, self.masks, self.source_error, self.seed = points, rate, masks, source_error, seed
        self.dropout = Dropout(points=points, rate=rate, masks=masks, source_error=source_error, seed=seed)

    @property
    def needs(self) -> Literal["nothing", "inputs"]:
        """Source inputs if the rate is fitted."""
        return self.dropout.needs

    @property
    def shares(self) -> str:
        """The masks, which estimators with the same dropout draw once."""
        return f"dropout {self.points} {self.rate} {self.seed}"

    def passes(self, batch_size: int) -> float:
        """Return one pass for each mask; networks that are split at the first dropout need less."""
        return float(self.masks)

    def fit(self, batches: Sequence[tuple[Tensor, Tensor | None]], model: Classifier) -> None:
        """Fit the rate of the dropout."""
        self.dropout.fit(batches, model)

    def reuses(self, model: Classifier) -> Collection[str]:
        """Return the parts before the first dropout."""
        return self.dropout.points_in(model).finished
