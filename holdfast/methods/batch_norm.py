"""BatchNorm with statistics of the test data, without gradients."""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar

from torch import nn

from holdfast.blocks.norm import BatchStatistics, BlendedStatistics, CumulativeStatistics
from holdfast.blocks.wrapping import replace_batch_norm
from holdfast.methods._base import METHODS, Method
from holdfast.models.classifier import Classifier
from holdfast.options.ranges import NotNegative, Share


@METHODS.register("batch_norm")
class BatchNorm(Method):
    """Normalise with the statistics of the test batch, optionally blended with those of the source.

    `prior_samples` is the number of samples that the source statistics count for (Schneider et al.); as in the official
    code, the batch variance is then unbiased. `source_share` sets the weight of the source directly, independent of the
    batch size. `cumulative=True` averages over all batches so far instead.
    """

    citation = "Nado et al., 2020; Schneider et al., NeurIPS 2020"
    needs_batch_norm = True
    learns = False
    passes = "1 forward"
    keeps = "source statistics of every BatchNorm layer"
    use_when = "batches are large and each holds one domain and all classes, and no weights may be trained"
    fails_when = "batches are small or hold few classes: their statistics then describe the classes, not the domain"
    meanings: ClassVar = {
        "prior_samples": "number of samples that the source statistics count for",
        "source_share": "weight of the source statistics whatever the batch size; None: by `prior_samples`",
        "cumulative": "whether to average over all batches so far",
    }

    def __init__(
        self,
        model: Classifier,
        *,
        prior_samples: NotNegative = 0.0,
        source_share: Share | None = None,
        cumulative: bool = False,
        seed: int = 0,
    ) -> None:
        self.prior_samples, self.source_share, self.cumulative = prior_samples, source_share, cumulative
        self.learns = cumulative
        if (prior_samples > 0) + (source_share is not None) + cumulative > 1:
            raise ValueError("prior_samples, source_share and cumulative exclude each other; pass one of them")
        super().__init__(model, seed=seed)

    def prepare(self, model: Classifier) -> list[nn.Parameter]:
        """Replace the statistics of every BatchNorm layer and train nothing."""
        stand_in: Any = BatchStatistics
        if self.cumulative:
            stand_in = CumulativeStatistics
        elif self.prior_samples > 0 or self.source_share is not None:
            stand_in = partial(BlendedStatistics, source_share=self._weigh)
        replace_batch_norm(model, stand_in)
        return []

    def _weigh(self, batch_size: int) -> float:
        if self.source_share is not None:
            return self.source_share
        return self.prior_samples / (self.prior_samples + batch_size)  # λ = N / (N + n)
