"""AETTA: what answers do under dropout, weighted by how few classes they are spread over."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Literal

from torch import Tensor

from holdfast.estimators.base import ESTIMATORS, Estimator
from holdfast.estimators.disagreement import measure_disagreement
from holdfast.estimators.dropout import Dropout
from holdfast.estimators.observation import Observation
from holdfast.models.classifier import Classifier

__all__ = ["Aetta"]


@ESTIMATORS.register("aetta")
class Aetta(Estimator):
    """Takes disagreement under dropout for the error, the more so the fewer classes are predicted, and smooths it.

    The published estimator exactly: at total collapse nothing disagrees and it reports health, and it takes classes
    that come in bursts for collapse. `points`, `rate`, `masks` and `source_error` are those of `Dropout`.
    """

    citation = "Lee et al., CVPR 2024"
    error: float | None

    def __init__(
        self,
        *,
        points: Literal["stages", "features"] | Sequence[str] = "stages",
        rate: float | Literal["fitted"] | None = None,
        masks: int = 10,
        skew_power: float = 3.0,
        smoothing: float = 0.6,
        source_error: float | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__()
        self.points, self.rate, self.masks, self.seed = points, rate, masks, seed  # p, N
        self.skew_power, self.smoothing, self.source_error = skew_power, smoothing, source_error  # α
        self.dropout = Dropout(points=points, rate=rate, masks=masks, source_error=source_error, seed=seed)
        self.add_state("error", None)

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
        """Return one minus the smoothed error."""
        found = measure_disagreement(seen.logits, self.dropout.logits(seen), self.skew_power)
        # At first the average is the disagreement itself, neither weighted nor clipped.
        previous = found.share if self.error is None else self.error
        self.error = self.smoothing * previous + (1 - self.smoothing) * found.error
        return 1 - self.error
