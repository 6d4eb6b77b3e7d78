"""Compare tensors and weights bit by bit; what the contracts of every kind use."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from holdfast.adapted import AdaptedModel

__all__ = ["Batches", "assert_equal", "logits_of", "weights_of"]

Batches = Sequence[Tensor]


def weights_of(model: AdaptedModel) -> list[Tensor]:
    """Return copies of all parameters and buffers of the method."""
    return [tensor.detach().clone() for tensor in (*model.method.parameters(), *model.method.buffers())]


def logits_of(output: Any) -> Tensor:
    """Return the logits of a network's output, which may be a tensor or an object that has `logits`."""
    return output if isinstance(output, Tensor) else output.logits


def assert_equal(expected: Sequence[Tensor], found: Sequence[Tensor], what: str) -> None:
    """Raise an AssertionError for the first pair of tensors that differ in any bit."""
    for left, right in zip(expected, found, strict=True):
        assert torch.equal(left, right), f"{what} differ by up to {float((left - right).abs().max()):.2g}"
