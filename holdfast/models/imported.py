"""Networks of your own: by import path, from a Python file, or from a folder with a `hubconf.py`."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

from holdfast.models.base import MODELS, seeded_weights
from holdfast.models.checkpoint import load_checkpoint
from holdfast.models.normalised import Normalised
from holdfast.models.preprocessing import Preprocessing


@MODELS.register("imported")
def imported(target: str, *, weights: str | None = None, arguments: dict[str, Any] | None = None) -> nn.Module:
    """The network that your own function returns: `imported:package.module:function`.

    >>> imported(target="torch.nn:Identity").training
    False
    """
    module, colon, name = target.partition(":")
    if not colon:
        raise ValueError(f"target={target!r} names no function; write package.module:function")
    try:
        build = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise ValueError(
            f"{target} cannot be imported ({error}); check the spelling and that it is installed"
        ) from error
    return built(target, build, weights, arguments)


def built(target: str, build: Any, weights: str | None, arguments: dict[str, Any] | None) -> nn.Module:
    """Return the network that a function makes, with weights from a file if one is given, in eval mode."""
    with seeded_weights(0):  # a network without weights from a file is the same in every build
        network = build(**(arguments or {}))
    if not isinstance(network, nn.Module):
        raise ValueError(f"{target} returned {type(network).__name__}; return a torch.nn.Module that returns logits")
    return network.eval() if weights is None else load_checkpoint(network, weights)


@MODELS.register("hub")
def torch_hub(target: str, *, weights: str | None = None, arguments: dict[str, Any] | None = None) -> nn.Module:
    """A network from a local torch hub folder, one with a hubconf.py: `hub:folder:entry`."""
    folder, colon, entry = target.rpartition(":")
    if not colon or not (Path(folder).expanduser() / "hubconf.py").is_file():
        raise ValueError(f"{target!r} names no folder with a hubconf.py; write folder:entry")
    repository = str(Path(folder).expanduser())
    try:
        return built(target, partial(torch.hub.load, repository, entry, source="local"), weights, arguments)
    except RuntimeError as error:
        raise ValueError(f"the hubconf.py of {folder} cannot make {entry!r}: {error}") from error


@MODELS.register("file")
def local_file(
    target: str,
    *,
    weights: str | None = None,
    arguments: dict[str, Any] | None = None,
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
    size: int | None = None,
) -> nn.Module:
    """The network that a function in a Python file returns, with weights from a checkpoint: `file:net.py:make,w.pt`.

    With `mean` and `std` of each channel the network takes images in [0, 1]; with `size` encoded images are resized and
    cropped to that many pixels. Without them inputs are passed on as they are.

    Args:
        target: the file and the function in it, `net.py:make`, with a checkpoint after a comma if there is one.
        weights: checkpoint, in place of the one in `target`.
        arguments: of the function, by name.
        mean: of each channel, for images in [0, 1]; None: inputs are passed on as they are.
        std: standard deviation of each channel.
        size: pixels to which encoded images are resized and cropped; None: they are not.
    """
    code, comma, path = target.partition(",")
    file, colon, name = code.rpartition(":")
    if not colon or not file:
        raise ValueError(f"{target!r} names no function; write net.py:function, or net.py:function,weights.safetensors")
    source = Path(file).expanduser()
    if not source.is_file():
        raise ValueError(f"there is no file {source}; pass the path of the Python file that builds the network")
    spec = importlib.util.spec_from_file_location(source.stem, source)
    if spec is None or spec.loader is None:
        raise ValueError(f"{source} is not a Python file; pass one that ends in .py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    if not hasattr(module, name):
        raise ValueError(f"{source} defines no {name}; write file:{file}:function with one that it defines")
    network = built(target, getattr(module, name), path if comma else weights, arguments)
    if (mean is None) != (std is None):
        raise ValueError(f"mean and std belong together, got mean={mean} and std={std}; pass both or neither")
    if mean is None and size is None:
        return network
    crop = None if size is None else (size, size)
    return Normalised.behind(network, Preprocessing(tuple(mean or ()), tuple(std or ()), crop, size))
