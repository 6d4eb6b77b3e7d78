"""The catalogue of networks and zoos, and the weights that ship with the package."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import nn

from holdfast.models.checkpoint import load_checkpoint
from holdfast.registry import Registry, UnknownNameError

ModuleT = TypeVar("ModuleT", bound=nn.Module)


class Catalogue(Registry[Callable[..., nn.Module]]):
    """Networks by name, and networks of a zoo by `zoo:network`: `timm:resnet50.a1_in1k`."""

    def __getitem__(self, name: str) -> Callable[..., nn.Module]:
        zoo, colon, network = name.partition(":")
        if Path(zoo).suffix in CHECKPOINTS and zoo not in self.names():
            raise UnknownNameError(
                f"{name} is a file of weights, which does not say what network they belong to; write "
                f"file:net.py:make,{name} with a Python file and its function that builds the network"
            )
        builder = super().__getitem__(zoo)
        return _with_network(builder, network) if colon else builder

    def __contains__(self, name: object) -> bool:
        return super().__contains__(name.partition(":")[0] if isinstance(name, str) else name)


def _with_network(builder: Callable[..., nn.Module], network: str) -> Callable[..., nn.Module]:
    """Return a loader for one network of its zoo, with the signature of what is left to choose."""

    @wraps(builder)
    def build(**options: Any) -> nn.Module:
        return builder(network, **options)

    parameters = list(inspect.signature(builder).parameters.values())
    if not parameters or parameters[0].kind is inspect.Parameter.KEYWORD_ONLY:
        raise UnknownNameError(f"{builder.__name__} is not a zoo; write its name without {network!r}")
    vars(build)["__signature__"] = inspect.Signature(parameters[1:])
    return build


MODELS = Catalogue("model", "models", hint="networks of zoos are named timm:resnet50.a1_in1k and the like")
WEIGHTS = Path(__file__).parent / "weights"
RUNS_CODE = ("imported", "file", "hub")  # zoos whose networks run Python code of their own
CHECKPOINTS = (".pt", ".pth", ".ckpt", ".bin", ".safetensors")


def load(name: str, **options: Any) -> nn.Module:
    """Return a network by name, in eval mode: `digits_resnet`, or one of a zoo.

    Zoos are written as `timm:resnet50.a1_in1k`, `torchvision:resnet50/IMAGENET1K_V2`, `hf:folder-or-name`,
    `clip:folder-or-name`,
    `robustbench:cifar10/corruptions/Standard`, `hub:folder:entry`, `file:net.py:make,weights.safetensors` and
    `imported:package.module:function`. Options go to the loader of the zoo.

    >>> load("imported:holdfast.models.tiny:tiny_resnet", arguments={"num_classes": 4}).fc.out_features
    4
    """
    return MODELS[name](**options).eval()


def load_weights(module: ModuleT, path: Path) -> ModuleT:
    """Load a file of weights into a network, with exactly matching names, and return it in eval mode."""
    if not path.is_file():
        raise FileNotFoundError(f"there are no weights at {path}; train them with `holdfast train`")
    return load_checkpoint(module, path)


def with_weights(build: Callable[[], ModuleT], seed: int = 0, weights: str | Path | None = None) -> ModuleT:
    """Return the network that a function builds in eval mode, with weights from a seed or a file."""
    with seeded_weights(seed):
        network = build()
    return network.eval() if weights is None else load_weights(network, Path(weights))


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
        torch.default_generator.manual_seed(seed)  # only the CPU's: torch.manual_seed would seed every device
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
