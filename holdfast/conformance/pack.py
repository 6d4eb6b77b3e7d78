"""Packs: a recorded stream, the traces of official code on it, and the network that they were recorded with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from holdfast.models.cifar_resnet import CifarResNet
from holdfast.models.small import digits_resnet_gn, digits_vit

STREAMS = ("iid", "cor")

Arrays = Mapping[str, NDArray[Any]]


@dataclass(frozen=True)
class Pack:
    """Where a stream and its traces are in the golden folder, and how to read them."""

    stream: str  # its file
    traces: str  # their folder
    network: Callable[[Path], nn.Module]  # from the golden folder
    source: str  # array of the stream that methods see before the first batch
    source_samples: int  # the first ones of them
    single_first: bool  # inputs are scaled in single precision, also for recordings in double precision

    def inputs(self, golden: Path, dtype: torch.dtype) -> Mapping[str, Tensor]:
        """Return the inputs of each stream and of the source, by name."""
        return _inputs(self, golden, dtype)

    def length(self, golden: Path, stream: str) -> int:
        """Return the number of samples of a stream."""
        return len(load_arrays(golden / self.stream)[f"{stream}_y"])


def _resnet20(golden: Path) -> nn.Module:
    return CifarResNet.from_file(golden / "resnet20_cifar10.safetensors")


CIFAR = Pack("stream.npz", "traces", _resnet20, source="iid", source_samples=256, single_first=True)
_DIGITS: dict[str, Any] = {"source": "source", "source_samples": 224, "single_first": False}
DIGITS_VIT = Pack("traces_ln/stream_ln.npz", "traces_ln", lambda _: digits_vit(), **_DIGITS)
DIGITS_RESNET_GN = Pack("traces_ln/stream_ln.npz", "traces_ln", lambda _: digits_resnet_gn(), **_DIGITS)
PACKS = (CIFAR, DIGITS_VIT, DIGITS_RESNET_GN)


@lru_cache(maxsize=4)
def _inputs(pack: Pack, golden: Path, dtype: torch.dtype) -> dict[str, Tensor]:
    arrays = load_arrays(golden / pack.stream)
    inputs = {}
    for name in dict.fromkeys((*STREAMS, pack.source)):
        # Contiguous, as in the recordings: channels-last kernels sum in another order (2e-4 in a logit).
        pixels = torch.from_numpy(arrays[f"{name}_x"]).permute(0, 3, 1, 2).contiguous()
        # The precision of the scaling matters: 5e-3 in a logit of SoTTA.
        inputs[name] = (pixels.to(torch.float32 if pack.single_first else dtype) / 255).to(dtype)
    return {**inputs, "source": inputs[pack.source][: pack.source_samples]}


@lru_cache(maxsize=4)
def load_arrays(path: Path) -> Arrays:
    """Return the arrays of a file."""
    with np.load(path) as file:
        return {name: file[name] for name in file.files}
