"""Held-out source data: what an estimator keeps of them, and the error of a network on them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor

from holdfast.blocks.norm import paused
from holdfast.estimators._base import Estimator
from holdfast.models.classifier import Classifier


class OnHeldOut(Estimator):
    """An estimator that predicts the first `samples` held-out source samples again and again."""

    inputs: Tensor
    labels: Tensor
    samples: int

    @property
    def needs(self) -> Literal["labels"]:
        """Labels of held-out source data."""
        return "labels"

    def fit(self, batches: Sequence[tuple[Tensor, Tensor | None]], model: Classifier) -> None:
        """Keep the first samples; they are not part of a saved state and must be given again before loading it."""
        inputs = torch.cat([inputs for inputs, _ in batches])[: self.samples]
        labels = torch.cat([labels for _, labels in batches if labels is not None])[: self.samples]
        self.register_buffer("inputs", inputs.to(model.device), persistent=False)
        self.register_buffer("labels", labels.to(model.device), persistent=False)


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
