"""What methods share that subtract a vector from the features before the last layer."""

from __future__ import annotations

from contextlib import AbstractContextManager

import torch
from torch import Tensor, nn

from holdfast.methods._base import Method
from holdfast.models.classifier import Classifier
from holdfast.models.partial_forward import patched


class Centring(Method):
    """Classifies the features minus a centre, which is zero at first."""

    needs_head = True
    needs_norm = False
    passes = "1 forward"
    centre: Tensor

    def __init__(self, model: Classifier, *, seed: int = 0) -> None:
        super().__init__(model, seed=seed)
        self.add_state("centre", torch.zeros((), dtype=model.dtype, device=model.device))

    def prepare(self, model: Classifier) -> list[nn.Parameter]:
        """Train nothing."""
        return []

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
