"""The memory format of images in which a network is faster, by a short measurement."""

from __future__ import annotations

import time

import torch
from torch import Tensor, nn

from holdfast.machine.devices import MemoryFormat
from holdfast.models.probing import untouched

WORTHWHILE = 0.85  # of the time with contiguous inputs
PAIRS = 5


def is_channels_last(network: nn.Module) -> bool:
    """Return whether a convolution has its weights in this format already.

    >>> is_channels_last(nn.Conv2d(3, 4, 3)), is_channels_last(nn.Conv2d(3, 4, 3).to(memory_format=torch.channels_last))
    (False, True)
    """
    return any(
        part.weight.is_contiguous(memory_format=torch.channels_last) and part.kernel_size != (1, 1)
        for part in network.modules()
        if isinstance(part, nn.Conv2d)
    )


def channels_last_ratio(network: nn.Module, inputs: Tensor) -> float:
    """Return the time with channels_last inputs as a share of that with contiguous ones.

    It is the worst of five ratios, each of two calls one after the other: others may use the machine.
    """

    def timed(given: Tensor) -> float:
        start = time.perf_counter()
        network(given)
        return time.perf_counter() - start

    other = inputs.to(memory_format=torch.channels_last)
    with untouched(network):
        timed(inputs)
        return max(timed(other) / timed(inputs) for _ in range(PAIRS))


def faster_format(network: nn.Module, inputs: Tensor) -> MemoryFormat:
    """Return the format of inputs in which a network is clearly faster; contiguous if it has no convolution.

    >>> faster_format(nn.Sequential(nn.Flatten(), nn.Linear(12, 5)), torch.zeros(1, 3, 2, 2))
    'contiguous'
    """
    if inputs.dim() != 4 or not any(isinstance(part, nn.Conv2d) for part in network.modules()):
        return "contiguous"
    return "channels_last" if channels_last_ratio(network, inputs) < WORTHWHILE else "contiguous"


@torch.no_grad()
def quicken(network: nn.Module, trial: Tensor) -> None:
    """Store the channels of images last, which is a third faster, unless the network needs another order."""
    network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    try:
        network(trial)
    except RuntimeError:  # it flattens its feature maps with view()
        network.to(memory_format=torch.contiguous_format)  # type: ignore[call-overload]
