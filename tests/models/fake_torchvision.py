"""A stand-in for torchvision, so that timm can be imported where torchvision cannot.

The wheels of torchvision need a torch of the same build, and the tests run on a CPU build that has none. timm imports
torchvision for data sets, transforms and one layer; its networks use only that layer, `FrozenBatchNorm2d`, which is
written here. Everything else in the stand-in is an empty class.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor, nn

MODULES = (
    "torchvision",
    "torchvision.datasets",
    "torchvision.ops",
    "torchvision.ops.misc",
    "torchvision.transforms",
    "torchvision.transforms.functional",
)

ABSENT = "timm is not installed: pip install --no-deps timm"


class FrozenBatchNorm2d(nn.Module):
    """BatchNorm whose statistics and affine parameters are buffers, as detection networks use it."""

    def __init__(self, num_features: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.eps = eps
        for name, value in (("weight", 1.0), ("bias", 0.0), ("running_mean", 0.0), ("running_var", 1.0)):
            self.register_buffer(name, torch.full((num_features,), value))

    def forward(self, features: Tensor) -> Tensor:
        weight, bias, mean, var = (
            getattr(self, name).view(-1, 1, 1) for name in ("weight", "bias", "running_mean", "running_var")
        )
        scale = weight * (var + self.eps).rsqrt()
        return features * scale + (bias - mean * scale)


class _Empty(ModuleType):
    """A module in which every name is an empty class."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        kind = FrozenBatchNorm2d if name == "FrozenBatchNorm2d" else type(name, (), {"__module__": self.__name__})
        setattr(self, name, kind)
        return kind


def importable(name: str) -> bool:
    """Return whether a package can be imported here."""
    try:
        __import__(name)
    except (ImportError, RuntimeError):
        return False
    return True


def import_timm() -> Any:
    """Import timm, beside the stand-in where torchvision cannot be imported; skip where timm is not installed.

    The stand-in is taken away afterwards, so that no other test meets it.
    """
    if "timm" in sys.modules or importable("torchvision"):
        return pytest.importorskip("timm", reason=ABSENT)
    try:
        for name in MODULES:
            module = _Empty(name)
            module.__path__ = []
            sys.modules[name] = module
            parent, _, child = name.rpartition(".")
            if parent:
                setattr(sys.modules[parent], child, module)
        modes = sys.modules["torchvision.transforms"].InterpolationMode
        sys.modules["torchvision.transforms.functional"].InterpolationMode = modes  # type: ignore[attr-defined]
        for mode in ("NEAREST", "BILINEAR", "BICUBIC", "BOX", "HAMMING", "LANCZOS"):
            setattr(modes, mode, mode.lower())
        return pytest.importorskip("timm", reason=ABSENT)
    finally:
        for name in MODULES:
            del sys.modules[name]
