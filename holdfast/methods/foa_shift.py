"""FOA-shift: move the test features by the difference between their running mean and that of the source."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

import torch
from torch import Tensor

from holdfast.methods._base import METHODS
from holdfast.methods._centring import Centring
from holdfast.models.classifier import Classifier
from holdfast.options.ranges import Share
from holdfast.records import Update


@METHODS.register("foa_shift")
class FoaShift(Centring):
    """Shift the test features so that their running mean is that of source features, before the last layer.

    The logits are W (z + μₛ − h) + b. The mean h is of earlier batches only: the first batch is predicted as by the
    source, then h ← (1 − α) h + α · (mean of the batch). This is the "activation shifting" of FOA without its search
    for prompts, and works for any network with a last linear layer. It is written from the published formulas; no
    outputs of the official code were recorded, because its licence is non-commercial.
    """

    citation = "Niu et al., ICML 2024 (FOA)"
    needs_source = True
    keeps = "two vectors: the means of source and test features"
    use_when = "there is no budget beyond inference, and source features are not centred, so that NEO does not fit"
    fails_when = "classes are correlated in time: the mean is then not the shift; or shifts change within few batches"
    meanings: ClassVar = {
        "mean_momentum": "share of a new batch in the running mean of the test features (α)",
    }
    source_mean: Tensor | None
    started: bool

    def __init__(self, model: Classifier, *, mean_momentum: Share = 0.1, seed: int = 0) -> None:
        self.mean_momentum = mean_momentum  # α
        super().__init__(model, seed=seed)
        self.add_state("source_mean", None, kept=True)  # μₛ
        self.add_state("started", False)  # whether any batch is in the running mean
        self._mean: Tensor | None = None  # of the features of the newest prediction

    @torch.no_grad()
    def fit_source(self, batches: Iterable[Tensor]) -> None:
        """Compute the mean of source features."""
        features = [self.model.encode(inputs) for inputs in batches]
        if not features:
            raise ValueError("source holds no batch; pass source=[inputs, …] with unlabelled source inputs")
        self.source_mean = torch.cat(features).mean(0)

    def predict(self, inputs: Tensor) -> Tensor:
        """Classify the shifted features."""
        features = self.model.encode(inputs)
        self._mean = None if self.paused else features.mean(0)
        return self.model.classify(features - self.centre)

    def adapt(self, inputs: Tensor, logits: Tensor | None = None) -> Update:
        """Add the batch to the running mean; the centre is h − μₛ."""
        mean = self.model.encode(inputs).mean(0) if self._mean is None else self._mean
        self._mean = None
        if self.source_mean is not None and not self.paused:
            offset = mean - self.source_mean
            self.centre = self.centre.lerp(offset, self.mean_momentum) if self.started else offset
            self.started = True
        return super().adapt(inputs, logits)
