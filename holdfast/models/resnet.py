"""A small ResNet for small images, with batch, group or layer normalisation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import Literal

from torch import Tensor, nn
from torch.nn import functional as F

from holdfast.models.normalised import Normalise

Norm = Literal["batch", "group", "layer"]
GROUPS = 4


class ChannelLayerNorm(nn.LayerNorm):
    """Layer normalisation over the channels of each pixel (as in Liu et al., ConvNeXt, CVPR 2022)."""

    def forward(self, inputs: Tensor) -> Tensor:
        """Return normalised feature maps, (batch, channels, height, width)."""
        return super().forward(inputs.movedim(1, -1)).movedim(-1, 1)


def norm_layer(norm: Norm, width: int) -> nn.Module:
    """Return one normalisation layer of the chosen kind."""
    if norm == "batch":
        return nn.BatchNorm2d(width)
    if norm == "group":
        return nn.GroupNorm(GROUPS, width)
    if norm == "layer":
        return ChannelLayerNorm(width)
    raise ValueError(f"unknown normalisation {norm!r}; choose one of batch, group, layer")


class ResidualBlock(nn.Module):
    """Two 3×3 convolutions and a shortcut, which is a 1×1 convolution if the shape changes."""

    def __init__(self, width_in: int, width: int, stride: int, norm: Norm) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(width_in, width, 3, stride, 1, bias=False)
        self.norm1 = norm_layer(norm, width)
        self.conv2 = nn.Conv2d(width, width, 3, 1, 1, bias=False)
        self.norm2 = norm_layer(norm, width)
        self.shortcut = nn.Sequential()
        if stride > 1 or width_in != width:
            self.shortcut = nn.Sequential(
                nn.Conv2d(width_in, width, 1, stride, bias=False),
                norm_layer(norm, width),
            )

    def forward(self, inputs: Tensor) -> Tensor:
        """Return the feature maps, reduced by the stride."""
        residual = F.relu(self.norm1(self.conv1(inputs)))
        residual = self.norm2(self.conv2(residual))
        return F.relu(self.shortcut(inputs) + residual)


class ResNet(nn.Module):
    """A residual network with one stage per width; every stage but the first halves the feature maps.

    Like the CIFAR networks of He et al. (CVPR 2016), but with convolutional shortcuts.

    Args:
        norm: kind of normalisation layers.
        widths: channels of each stage.
        blocks: residual blocks of each stage.
        num_classes: number of outputs.
        mean: of each channel, subtracted from images in [0, 1].
        std: of each channel, by which they are divided.
    """

    def __init__(
        self,
        *,
        norm: Norm = "batch",
        widths: Sequence[int] = (16, 32, 64),
        blocks: int = 1,
        num_classes: int = 10,
        mean: Sequence[float] = (0.5, 0.5, 0.5),
        std: Sequence[float] = (0.25, 0.25, 0.25),
    ) -> None:
        super().__init__()
        self.normalise = Normalise(mean, std)
        self.conv = nn.Conv2d(3, widths[0], 3, 1, 1, bias=False)
        self.norm = norm_layer(norm, widths[0])
        block = partial(ResidualBlock, norm=norm)
        self.stages = nn.Sequential(
            stage(block, widths[0], widths[0], 1, blocks),
            *(stage(block, width_in, width, 2, blocks) for width_in, width in pairwise(widths)),
        )
        self.fc = nn.Linear(widths[-1], num_classes)

    def forward(self, inputs: Tensor) -> Tensor:
        """Return logits for images in [0, 1], (batch, 3, height, width)."""
        maps = F.relu(self.norm(self.conv(self.normalise(inputs))))
        logits: Tensor = self.fc(self.stages(maps).mean(dim=(2, 3)))
        return logits


def stage(
    block: Callable[[int, int, int], nn.Module], width_in: int, width: int, stride: int, blocks: int
) -> nn.Sequential:
    """Return a sequence of residual blocks, the first of which changes the shape."""
    return nn.Sequential(block(width_in, width, stride), *(block(width, width, 1) for _ in range(blocks - 1)))
