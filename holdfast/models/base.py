"""The catalogue of reference networks, and the weights that ship with them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import torch
from safetensors.torch import load_file
from torch import nn

from holdfast.registry import Registry

__all__ = ["MODELS", "WEIGHTS", "load_weights", "predicting", "seeded_weights"]

ModuleT = TypeVar("ModuleT", bound=nn.Module)

MODELS: Registry[Callable[..., nn.Module]] = Registry("model", "models")
WEIGHTS = Path(__file__).parent / "weights"


def load_weights(module: ModuleT, path: Path) -> ModuleT:
    """Load a safetensors file into a network, every name accounted for, and return it in eval mode."""
    if not path.is_file():
        raise FileNotFoundError(f"there are no weights at {path}; train them with `holdfast train`")
    module.load_state_dict(load_file(path))
    return module.eval()


@contextmanager
def seeded_weights(seed: int) -> Iterator[None]:
    """Draw initial weights from a seed and leave the global generator as it was.

    >>> with seeded_weights(0):
    ...     layer = nn.Linear(2, 2)
    >>> with seeded_weights(0):
    ...     twin = nn.Linear(2, 2)
    >>> bool((layer.weight == twin.weight).all())
    True
    """
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)  # the CPU's alone: torch.manual_seed would reach every device
        yield


@contextmanager
def predicting(network: nn.Module) -> Iterator[None]:
    """Leave the global generator as it was if the whole network is in eval mode.

    transformers draws a number for every layer that it may drop, and in eval mode ignores it.
    """
    if any(part.training for part in network.modules()):
        yield
        return
    with torch.random.fork_rng(devices=[]):
        yield
