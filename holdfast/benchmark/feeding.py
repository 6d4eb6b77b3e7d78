"""Bring batches to the device of a run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from torch import Tensor

from holdfast.data.tensors import as_inputs
from holdfast.machine.devices import Placement
from holdfast.records import Batch


def placed(samples: Tensor, placement: Placement) -> Tensor:
    """Return stored samples as inputs on the device: bytes are moved before they become floats.

    >>> import torch
    >>> placed(torch.full((1, 2, 2, 3), 255, dtype=torch.uint8), Placement()).shape
    torch.Size([1, 3, 2, 2])
    """
    return placement.lay_out(as_inputs(placement.move(samples)))


def fed(batches: Iterable[Batch], placement: Placement) -> Iterator[Batch]:
    """Yield batches of stored samples with their inputs on the device."""
    for batch in batches:
        yield replace(batch, inputs=placed(batch.inputs, placement))
