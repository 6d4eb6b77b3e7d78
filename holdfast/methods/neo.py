"""NEO: subtract the mean of the test features before the last layer."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import ClassVar

import torch
from torch import Tensor, nn

from holdfast.methods._base import METHODS, Method
from holdfast.models.classifier import Classifier
from holdfast.models.partial_forward import patched

__all__ = ["Neo"]


@METHODS.register("neo")
class Neo(Method):
    """Subtract the mean of all test features seen so far before the last layer.

    The logits are W (z − μ) + b, where μ is the mean over all samples up to and including this batch; there is nothing
    to tune. `centre_momentum` is the authors' variant for changing shifts (0.1): μ ← (1 − α) μ + α · (mean of the
    batch), starting from zero.
    """

    citation = "Murphy et al., ICLR 2026"
    needs_head = True
    needs_norm = False
    passes = "1 forward"
    keeps = "one vector: the mean of the features"
    predicts = "after"
    use_when = "there is no budget beyond inference, especially for vision transformers"
    fails_when = "classes are correlated in time or source features are not centred: the mean is then not the shift"
    meanings: ClassVar = {
        "centre_momentum": "share of a new batch in the mean; None: that of all samples so far",
    }
    centre: Tensor
    samples: int

    def __init__(self, model: Classifier, *, centre_momentum: float | None = None, seed: int = 0) -> None:
        self.centre_momentum = centre_momentum
        super().__init__(model, seed=seed)
        self.add_state("centre", torch.zeros((), dtype=model.dtype, device=model.device))
        self.add_state("samples", 0)

    def prepare(self, model: Classifier) -> list[nn.Parameter]:
        """Train nothing."""
        return []

    def predict(self, inputs: Tensor) -> Tensor:
        """Update the centre with this batch, then classify the centred features."""
        logits, features = self.model.forward_with_features(inputs)
        if not self.paused and torch.isfinite(logits).all():
            self.samples += len(features)
            share = len(features) / self.samples if self.centre_momentum is None else self.centre_momentum
            self.centre = self.centre.lerp(features.mean(0), share)
        return self.model.classify(features - self.centre)

    def predictor_head(self) -> AbstractContextManager[None]:
        """Centre the inputs of the last layer while the context is open."""
        assert self.model.head is not None
        own = self.model.head.forward
        return patched(self.model.head, lambda features: own((features.flatten(1) - self.centre).view_as(features)))

    def export(self) -> nn.Module:
        """Return the network with the centring built into its last layer."""
        exported, name = super().export(), self.model.head_name or ""
        centred = _Centred(exported.get_submodule(name), self.centre.clone())
        parent, _, child = name.rpartition(".")
        if not name:
            return centred
        setattr(exported.get_submodule(parent), child, centred)
        return exported


class _Centred(nn.Module):
    """A last layer that receives centred features."""

    centre: Tensor

    def __init__(self, head: nn.Module, centre: Tensor) -> None:
        super().__init__()
        self.head = head
        self.register_buffer("centre", centre)

    def forward(self, features: Tensor) -> Tensor:
        centred = features.flatten(1) - self.centre
        logits: Tensor = self.head(centred.view_as(features))
        return logits
