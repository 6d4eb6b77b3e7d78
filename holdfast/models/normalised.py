"""Normalise channels inside the network, so that every method sees pixels in [0, 1]."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from holdfast.models.preprocessing import Preprocessing


def unwrapped(module: nn.Module) -> nn.Module:
    """Return the network inside `torch.compile`, `DataParallel` and `DistributedDataParallel`; any other as it is.

    >>> network = nn.Linear(2, 2)
    >>> unwrapped(nn.DataParallel(network)) is network
    True
    """
    parallel = (nn.DataParallel, nn.parallel.DistributedDataParallel)
    inner = module.module if isinstance(module, parallel) else getattr(module, "_orig_mod", None)
    return unwrapped(inner) if isinstance(inner, nn.Module) else module


class Normalise(nn.Module):
    """Subtract the mean of each channel and divide by its standard deviation, constants outside the state dict.

    Bytes are refused: promoted, they would be 255 times too large.

    >>> Normalise(mean=[0.5], std=[0.25])(torch.ones(1, 1, 1, 1)).item()
    2.0
    """

    mean: Tensor
    std: Tensor

    def __init__(self, mean: Sequence[float], std: Sequence[float]) -> None:
        super().__init__()
        self.register_buffer("mean", torch.tensor(mean).view(-1, 1, 1), persistent=False)
        self.register_buffer("std", torch.tensor(std).view(-1, 1, 1), persistent=False)

    def forward(self, inputs: Tensor) -> Tensor:
        """Return the normalised images, (batch, channels, height, width)."""
        if not inputs.is_floating_point():
            raise ValueError(
                f"inputs are {inputs.dtype}, and the network takes images in [0, 1]; pass inputs.float() / 255"
            )
        return (inputs - self.mean) / self.std


class Normalised(nn.Module):
    """A network behind its channel normalisation: it takes images in [0, 1].

    Args:
        module: the network, for normalised images.
        mean: of each channel, subtracted from images in [0, 1].
        std: of each channel, by which they are divided.
        preprocessing: what else happens to an image before the network; None: unknown.

    >>> network = Normalised(nn.Flatten(), mean=[0.5, 0.5, 0.5], std=[0.5, 0.5, 0.5])
    >>> network(torch.zeros(1, 3, 1, 1)).tolist()
    [[-1.0, -1.0, -1.0]]
    """

    def __init__(
        self,
        module: nn.Module,
        mean: Sequence[float],
        std: Sequence[float],
        preprocessing: Preprocessing | None = None,
    ) -> None:
        super().__init__()
        self.normalise = Normalise(mean, std).train(module.training)
        self.module = unwrapped(module)
        self.preprocessing = preprocessing or Preprocessing(tuple(mean), tuple(std))
        self.training = module.training

    @classmethod
    def behind(cls, module: nn.Module, preprocessing: Preprocessing) -> Normalised:
        """Return a network behind the normalisation of its zoo."""
        channels = max(len(preprocessing.mean), 3)
        mean, std = preprocessing.mean or (0.0,) * channels, preprocessing.std or (1.0,) * channels
        return cls(module, mean, std, preprocessing)

    def forward(self, inputs: Tensor) -> object:
        """Return what the network returns for the normalised images."""
        return self.module(self.normalise(inputs))
