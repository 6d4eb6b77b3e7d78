"""The anchor as a method: source weights, moments between source and recent inputs, class proportions."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn

from holdfast.anchor import Anchor, Reference
from holdfast.methods._base import METHODS, Method, PredictOnly
from holdfast.models.classifier import Classifier
from holdfast.options.ranges import Count, Positive, Share


@METHODS.register("anchor")
class AnchorMethod(Method):
    """Restate activations with a mean of source and recent moments, and reweigh by recent class proportions. Ours.

    At every normalisation layer, activations are brought from `source_share` · source + the rest · recent moments to
    the source's; recent ones reach back further when the last `window` samples hold few classes. Class proportions of
    these samples, with a prior chosen by their evidence, multiply the probabilities (`proportions=False`: not).
    `temperature` divides the logits before. The source's moments are those of `source` inputs or of a card; without
    them, those that BatchNorm layers store. A network that has neither predicts as the source does. Nothing is trained.
    """

    citation = "ours; after Schneider et al., NeurIPS 2020, and Saerens et al., Neural Computation 2002"
    needs_norm = False
    uses_reference = True
    passes = "1 forward"
    keeps = "recent moments of every normalisation layer, probabilities of the last samples"
    predicts = "after"
    predicts_jointly = True
    use_when = "one forward is affordable, no training is wanted, and batch size and class order are unknown"
    fails_when = (
        "the shift alternates faster than the moments follow, or inputs of no class are mixed in: they move the "
        "moments for all; without source samples, on a pretrained network with a new head, whose stored statistics are "
        "those of other data; it is no protection against inputs that are made to harm"
    )
    meanings: ClassVar = {
        "source_share": "weight of the source's moments; the rest is that of recent inputs",
        "window": "number of recent samples that count for moments and class proportions",
        "proportions": "whether predictions are reweighed by the class proportions of recent samples",
        "temperature": "divides the logits of the anchor before they become probabilities",
    }

    def __init__(
        self,
        model: Classifier,
        *,
        source_share: Share = 0.5,
        window: Count = 64,
        proportions: bool = True,
        temperature: Positive = 1.0,
        seed: int = 0,
    ) -> None:
        self.source_share, self.window, self.proportions = source_share, window, proportions
        self.temperature = temperature
        super().__init__(model, seed=seed)

    def prepare(self, model: Classifier) -> list[nn.Parameter]:
        """Tap the normalisation layers; train nothing."""
        self.anchor = Anchor(temperature=self.temperature, window=self.window, proportions=self.proportions)
        self.anchor.tap(model, source_share=self.source_share)
        return []

    def refer_to(self, reference: Reference) -> None:
        """Follow inputs from the moments of the source's own data."""
        self.anchor.refer_to(self.model, reference)

    @property
    def referred(self) -> bool:
        """Whether there are moments to follow inputs from: given ones, or those that BatchNorm layers store."""
        return self.anchor.follows

    def predict(self, inputs: Tensor) -> Tensor:
        """Return the logarithms of the anchor's probabilities."""
        if not self.referred:
            logits: Tensor = self.model(inputs)
            return logits
        opinion = self.anchor.judge(self.model, inputs, learn=not self.paused)
        if opinion is None:
            return torch.full(
                (len(inputs), self.model.num_classes), torch.nan, dtype=self.model.dtype, device=self.model.device
            )
        return log_of(opinion.probabilities).to(self.model.dtype)

    def export(self) -> nn.Module:
        """Return a module that predicts with the moments and proportions of now."""
        return PredictOnly(self)


def log_of(probabilities: Tensor) -> Tensor:
    """Return logarithms that are finite for a probability of zero.

    >>> log_of(torch.tensor([1.0, 0.0])).isfinite().all().item()
    True
    """
    return probabilities.clamp_min(torch.finfo(probabilities.dtype).tiny).log()
