"""The error of a network on held-out source data."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from holdfast.blocks.norm import paused
from holdfast.models.classifier import Classifier

__all__ = ["source_error_of"]


@torch.no_grad()
def source_error_of(batches: Sequence[tuple[Tensor, Tensor | None]], model: Classifier) -> float:
    """Return the error on labelled batches; without labels one minus the mean confidence, a rough guess."""
    wrong = 0.0
    with paused(model):
        for inputs, labels in batches:
            logits = model(inputs)
            right = logits.softmax(1).amax(1) if labels is None else logits.argmax(1) == labels
            wrong += len(inputs) - float(right.sum())
    return wrong / sum(len(inputs) for inputs, _ in batches)
