"""Tiny untrained networks for tests and contracts: milliseconds per batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from holdfast.models.amaut import AMAuT, AMAuTVersion
from holdfast.models.base import seeded_weights
from holdfast.models.resnet import Norm, ResNet
from holdfast.models.vit import ViT

TINY_AMAUT = AMAuTVersion(
    sample_rate=16_000,
    samples=1_600,
    num_classes=10,
    mels=8,
    fft=128,
    window=100,
    hop=40,
    width=4,
    extra_blocks=(0,),
    head_widths=(24, 16),
    token_width=16,
    depth=1,
    heads=2,
    hidden=32,
)


def tiny_resnet(
    norm: Norm = "batch", num_classes: int = 10, seed: int = 0, *, widths: Sequence[int] = (8, 16)
) -> ResNet:
    """Return a residual network of one stage per width with random weights, in eval mode, for RGB images of any size.

    >>> import torch
    >>> tiny_resnet("group")(torch.zeros(2, 3, 16, 16)).shape
    torch.Size([2, 10])
    """
    with seeded_weights(seed):
        return ResNet(norm=norm, widths=widths, num_classes=num_classes).eval()


def tiny_vit(num_classes: int = 10, size: int = 32, seed: int = 0) -> ViT:
    """Return a vision transformer of two blocks with random weights, in eval mode, for RGB images of one size."""
    with seeded_weights(seed):
        return ViT(size=size, patch=8, width=16, depth=2, heads=2, num_classes=num_classes).eval()


def tiny_amaut(num_classes: int = 10, seed: int = 0) -> AMAuT:
    """Return an audio transformer with random weights, in eval mode, for a tenth of a second at 16 kHz."""
    with seeded_weights(seed):
        return AMAuT(replace(TINY_AMAUT, num_classes=num_classes)).eval()
