"""Networks from a Python file and a checkpoint, by `file:net.py:make,weights.safetensors`."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from torch import nn

from holdfast.models.base import MODELS
from holdfast.models.imported import built
from holdfast.models.normalised import Normalised
from holdfast.models.preprocessing import Preprocessing


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
