"""Robust BN: the normalisation of RoTTA without its training."""

from __future__ import annotations

from functools import partial
from typing import ClassVar, Literal

from torch import Tensor, nn

from holdfast.blocks.robust_norm import RobustStatistics, set_learning
from holdfast.blocks.wrapping import replace_batch_norm
from holdfast.methods._base import METHODS, Method
from holdfast.models.classifier import Classifier
from holdfast.options.ranges import Share
from holdfast.records import Update


@METHODS.register("robust_bn")
class RobustBatchNorm(Method):
    """Normalise with a slow moving average of test statistics that starts from the source's.

    By default a batch updates the average first and is then normalised with it, in one pass. `predict_first=True`
    predicts with the average of the earlier batches and needs a second pass to update it. The "Robust BN" of the UniTTA
    tables is a different layer: `balanced_bn` with `agnostic_share=1`.
    """

    citation = "Yuan et al., CVPR 2023 (RoTTA)"
    needs_batch_norm = True
    predicts: Literal["before", "after"] = "after"
    passes = "1 forward; 2 with predict_first"
    keeps = "source and moving statistics of every BatchNorm layer"
    use_when = "no weights may be trained, and batches are too small or hold too few classes for their own statistics"
    fails_when = "the domain changes every few batches: the average lags behind"
    meanings: ClassVar = {
        "statistics_momentum": "share of a new batch in the average (α)",
        "predict_first": "whether a batch is predicted before it moves the average, in a second pass",
    }

    def __init__(
        self, model: Classifier, *, statistics_momentum: Share = 0.05, predict_first: bool = False, seed: int = 0
    ) -> None:
        self.statistics_momentum, self.predict_first = statistics_momentum, predict_first  # α
        self.predicts = "before" if predict_first else "after"
        super().__init__(model, seed=seed)

    def prepare(self, model: Classifier) -> list[nn.Parameter]:
        """Replace the statistics of every BatchNorm layer and train nothing."""
        replace_batch_norm(model, partial(RobustStatistics, momentum=self.statistics_momentum))
        set_learning(model, not self.predict_first)
        return []

    def adapt(self, inputs: Tensor, logits: Tensor | None = None) -> Update:
        """Update the average, unless `predict` has done so."""
        if self.predict_first:
            set_learning(self.model, True)
            self.model(inputs)
            set_learning(self.model, False)
        return super().adapt(inputs, logits)
