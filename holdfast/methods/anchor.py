"""The anchor as a method: source weights, statistics between source and recent inputs, class proportions."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn

from holdfast.anchor import Anchor, follow_inputs, follows
from holdfast.methods._base import METHODS, Method, PredictOnly
from holdfast.models.classifier import Classifier

__all__ = ["AnchorMethod"]


@METHODS.register("anchor")
class AnchorMethod(Method):
    """Normalise with a mean of source and recent statistics, and reweigh predictions by recent class proportions. Ours.

    BatchNorm layers use `source_share` · source + the rest · recent statistics, which reach back further when the last
    `window` samples hold few classes. Class proportions of these samples, with a prior chosen by their evidence,
    multiply the probabilities (`proportions=False`: not). `temperature` divides the logits before. Nothing is trained,
    so nothing collapses. A network without BatchNorm predicts as the source does.
    """

    citation = "ours; after Schneider et al., NeurIPS 2020, and Saerens et al., Neural Computation 2002"
    needs_norm = False
    passes = "1 forward"
    keeps = "recent statistics of every BatchNorm layer, probabilities of the last samples"
    predicts = "after"
    predicts_jointly = True
    use_when = "one forward is affordable, no training is wanted, and batch size and class order are unknown"
    fails_when = (
        "the shift alternates faster than the statistics follow, or inputs of no class are mixed in: they move the "
        "statistics for all; it is no protection against inputs that are made to harm"
    )
    meanings: ClassVar = {
        "source_share": "weight of the source statistics; the rest is that of recent inputs",
        "window": "number of recent samples that count for statistics and class proportions",
        "proportions": "whether predictions are reweighed by the class proportions of recent samples",
        "temperature": "divides the logits of the anchor before they become probabilities",
    }

    def __init__(
        self,
        model: Classifier,
        *,
        source_share: float = 0.5,
        window: int = 64,
        proportions: bool = True,
        temperature: float = 1.75,
        seed: int = 0,
    ) -> None:
        self.source_share, self.window, self.proportions = source_share, window, proportions
        self.temperature = temperature
        super().__init__(model, seed=seed)
        self.anchor = Anchor(temperature=temperature, window=window, proportions=proportions and follows(model))

    def prepare(self, model: Classifier) -> list[nn.Parameter]:
        """Let the BatchNorm layers follow their inputs; train nothing."""
        follow_inputs(model, source_share=self.source_share, window=self.window)
        return []

    def predict(self, inputs: Tensor) -> Tensor:
        """Return the logarithms of the anchor's probabilities."""
        opinion = self.anchor.judge(self.model, inputs, learn=not self.paused)
        if opinion is None:
            return torch.full(
                (len(inputs), self.model.num_classes), torch.nan, dtype=self.model.dtype, device=self.model.device
            )
        return log_of(opinion.probabilities).to(self.model.dtype)

    def export(self) -> nn.Module:
        """Return a module that predicts with the statistics and proportions of now."""
        return PredictOnly(self)


def log_of(probabilities: Tensor) -> Tensor:
    """Return logarithms that are finite for a probability of zero.

    >>> log_of(torch.tensor([1.0, 0.0])).isfinite().all().item()
    True
    """
    return probabilities.clamp_min(torch.finfo(probabilities.dtype).tiny).log()
