"""ResNeXt for CIFAR (Xie et al., CVPR 2017), as AugMix and RobustBench name its tensors."""

from __future__ import annotations

from functools import partial

from torch import Tensor, nn
from torch.nn import functional as F

from holdfast.models.base import MODELS, with_weights
from holdfast.models.checkpoint import load_checkpoint
from holdfast.models.normalised import Normalise
from holdfast.models.resnet import stage

EXPANSION = 4
BASE = 64  # planes to which the width of a group refers


class ResNeXtBlock(nn.Module):
    """A 1×1, a grouped 3×3 and a 1×1 convolution; the shortcut is a 1×1 convolution if the shape changes."""

    def __init__(self, width_in: int, width: int, stride: int, groups: int, group_width: int) -> None:
        super().__init__()
        inner = width // EXPANSION * group_width // BASE * groups
        self.conv_reduce = nn.Conv2d(width_in, inner, 1, bias=False)
        self.bn_reduce = nn.BatchNorm2d(inner)
        self.conv_conv = nn.Conv2d(inner, inner, 3, stride, 1, groups=groups, bias=False)
        self.bn = nn.BatchNorm2d(inner)
        self.conv_expand = nn.Conv2d(inner, width, 1, bias=False)
        self.bn_expand = nn.BatchNorm2d(width)
        self.downsample: nn.Module | None = None
        if stride > 1 or width_in != width:
            shortcut = nn.Conv2d(width_in, width, 1, stride, bias=False)
            self.downsample = nn.Sequential(shortcut, nn.BatchNorm2d(width))

    def forward(self, inputs: Tensor) -> Tensor:
        """Return the feature maps, reduced by the stride."""
        residual = F.relu(self.bn_reduce(self.conv_reduce(inputs)))
        residual = F.relu(self.bn(self.conv_conv(residual)))
        residual = self.bn_expand(self.conv_expand(residual))
        return F.relu(residual + (inputs if self.downsample is None else self.downsample(inputs)))


class CifarResNeXt(nn.Module):
    """ResNeXt-29 with four groups of 32 planes, which the tables call 32×4d; images are scaled to [-1, 1] inside.

    >>> sum(weights.numel() for weights in CifarResNeXt(num_classes=100).parameters())
    6900132
    """

    def __init__(self, depth: int = 29, groups: int = 4, group_width: int = 32, num_classes: int = 100) -> None:
        super().__init__()
        if depth < 11 or depth % 9 != 2:
            raise ValueError(f"the depth of a CIFAR ResNeXt must be 9n + 2, e.g. 29 or 38, got {depth}")
        blocks = (depth - 2) // 9
        self.normalise = Normalise((0.5, 0.5, 0.5), (0.5, 0.5, 0.5))
        self.conv_1_3x3 = nn.Conv2d(3, 64, 3, 1, 1, bias=False)
        self.bn_1 = nn.BatchNorm2d(64)
        block = partial(ResNeXtBlock, groups=groups, group_width=group_width)
        self.stage_1 = stage(block, 64, 64 * EXPANSION, 1, blocks)
        self.stage_2 = stage(block, 64 * EXPANSION, 128 * EXPANSION, 2, blocks)
        self.stage_3 = stage(block, 128 * EXPANSION, 256 * EXPANSION, 2, blocks)
        self.classifier = nn.Linear(256 * EXPANSION, num_classes)

    def forward(self, inputs: Tensor) -> Tensor:
        """Return logits for images in [0, 1], (batch, 3, 32, 32)."""
        maps = F.relu(self.bn_1(self.conv_1_3x3(self.normalise(inputs))))
        maps = self.stage_3(self.stage_2(self.stage_1(maps)))
        logits: Tensor = self.classifier(maps.mean(dim=(2, 3)))
        return logits


@MODELS.register("cifar_resnext")
def cifar_resnext(
    *,
    weights: str | None = None,
    depth: int = 29,
    groups: int = 4,
    group_width: int = 32,
    num_classes: int = 100,
) -> CifarResNeXt:
    """ResNeXt-29 32×4d, with weights such as RobustBench's `Hendrycks2020AugMix_ResNeXt.pt`; without, untrained.

    Args:
        weights: checkpoint; None: random weights.
        depth: number of layers.
        groups: of the convolutions in a block.
        group_width: channels of a group in the first stage.
        num_classes: number of outputs.
    """
    network = with_weights(lambda: CifarResNeXt(depth, groups, group_width, num_classes))
    # RobustBench keeps the normalisation in the network, as mu and sigma.
    return network if weights is None else load_checkpoint(network, weights, ignored=("mu", "sigma"))
