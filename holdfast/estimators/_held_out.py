"""Held-out source data: what an estimator keeps of them, and the error of a network on them."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from holdfast.blocks.norm import paused
from holdfast.models.classifier import Classifier


def first_held_out(
    batches: Sequence[tuple[Tensor, Tensor | None]], samples: int, device: torch.device
) -> tuple[Tensor, Tensor]:
    """Return the first held-out inputs and their labels, on a device.

    >>> inputs, labels = first_held_out([(torch.zeros(4, 3), torch.arange(4))], 2, torch.device("cpu"))
    >>> inputs.shape, labels.tolist()
    (torch.Size([2, 3]), [0, 1])
    """
    inputs = torch.cat([inputs for inputs, _ in batches])[:samples]
    labels = torch.cat([labels for _, labels in batches if labels is not None])[:samples]
    return inputs.to(device), labels.to(device)


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
