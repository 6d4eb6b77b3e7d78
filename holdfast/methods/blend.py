"""Blend: the source and the anchor predict together, and the anchor's weight follows the shift of the inputs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import Tensor, nn

from holdfast.anchor import Anchor, Opinion, follow_inputs, follows
from holdfast.methods._base import METHODS, Method, PredictOnly
from holdfast.methods.anchor import log_of
from holdfast.models.classifier import Classifier
from holdfast.models.sharing import sharing_copy

__all__ = ["Blend", "blended"]


@METHODS.register("blend")
class Blend(Method):
    """Predict with the source and the anchor together, both with the class proportions of recent samples. Ours.

    p ∝ (1 − w) · source + w · anchor. The weight w = d / (d + `half_shift`) · (1 − ϱ) grows with the divergence d of
    recent input statistics from those of the source: without a shift the source decides. ϱ is how far the source is
    surer than the anchor of classes that both predict: then its statistics are those of few classes, not of a shift.
    The other options are those of `anchor`. Nothing is trained.
    """

    citation = "ours; see docs/promise.md"
    needs_norm = False
    passes = "2 forwards"
    keeps = "recent statistics of every BatchNorm layer, probabilities of the last samples"
    predicts = "after"
    predicts_jointly = True
    use_when = "always, unless only one forward is affordable: it is the default"
    fails_when = (
        "the network has no BatchNorm: it then predicts as the source does, and gains nothing; or few classes stay for "
        "long under a shift that statistics do not undo, such as another pitch: the anchor is then wrong"
    )
    meanings: ClassVar = {
        "half_shift": "divergence of the statistics at which source and anchor count the same",
        "source_share": "weight of the source statistics in the anchor",
        "window": "number of recent samples that count for statistics and class proportions",
        "proportions": "whether predictions are reweighed by the class proportions of recent samples",
        "temperature": "divides all logits before they become probabilities",
    }
    shift: float
    preference: float

    def __init__(
        self,
        model: Classifier,
        *,
        half_shift: float = 0.007,
        source_share: float = 0.5,
        window: int = 64,
        proportions: bool = True,
        temperature: float = 1.75,
        seed: int = 0,
    ) -> None:
        if half_shift <= 0:
            raise ValueError(f"half_shift must be positive, got {half_shift}")
        self.half_shift, self.source_share, self.window = half_shift, source_share, window
        self.proportions, self.temperature = proportions, temperature
        super().__init__(model, seed=seed)
        self.anchor = Anchor(temperature=temperature, window=window, proportions=proportions and follows(model))
        self.add_state("shift", 0.0)
        self.add_state("preference", 0.0)

    def prepare(self, model: Classifier) -> list[nn.Parameter]:
        """Keep the source, and let the BatchNorm layers of the network follow their inputs; train nothing."""
        self.source = sharing_copy(model)
        follow_inputs(model, source_share=self.source_share, window=self.window)
        return []

    def predict(self, inputs: Tensor) -> Tensor:
        """Return the logarithms of the blended probabilities; those of the source where the anchor has none."""
        with torch.no_grad():
            logits = self.source(inputs)
        opinion = self.anchor.judge(self.model, inputs, learn=not self.paused, source=logits)
        source = self.anchor.scaled(logits)
        if opinion is None:
            return log_of(source).to(self.model.dtype)
        if not self.paused:
            self.shift, self.preference = opinion.shift, opinion.preference
        return log_of(blended(source, opinion, self.half_shift)).to(self.model.dtype)

    def gauges(self) -> Mapping[str, float]:
        """Return the shift of the input statistics, and how far the source is preferred for being surer."""
        return {"shift": self.shift, "preference": self.preference}

    def export(self) -> nn.Module:
        """Return a module that predicts with the statistics and proportions of now."""
        return PredictOnly(self)


def blended(source: Tensor, opinion: Opinion, half_shift: float) -> Tensor:
    """Return the weighted mean of source and anchor, both with the anchor's class proportions, (batch, classes).

    >>> opinion = Opinion(torch.tensor([[0.2, 0.8]]), torch.tensor([[0.2, 0.8]]), shift=0.01)
    >>> blended(torch.tensor([[0.6, 0.4]]), opinion, half_shift=0.01)
    tensor([[0.4000, 0.6000]])
    """
    weight = opinion.shift / (opinion.shift + half_shift) * (1 - opinion.preference)
    return opinion.reweigh(source).lerp(opinion.probabilities, weight)
