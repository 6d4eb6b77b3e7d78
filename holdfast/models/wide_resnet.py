"""The wide residual network of Zagoruyko & Komodakis (BMVC 2016), as RobustBench names its tensors."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional as F

from holdfast.models.base import MODELS, with_weights
from holdfast.models.resnet import stage


class WideBlock(nn.Module):
    """Two pre-activated 3×3 convolutions; the shortcut is a 1×1 convolution if the width changes."""

    def __init__(self, width_in: int, width: int, stride: int) -> None:
        super().__init__()
        self.bn1 = nn.BatchNorm2d(width_in)
        self.conv1 = nn.Conv2d(width_in, width, 3, stride, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, 1, 1, bias=False)
        self.convShortcut = nn.Conv2d(width_in, width, 1, stride, bias=False) if width_in != width else None

    def forward(self, inputs: Tensor) -> Tensor:
        """Return the feature maps, reduced by the stride."""
        activated = F.relu(self.bn1(inputs))
        residual = self.conv2(F.relu(self.bn2(self.conv1(activated))))
        # A shortcut that changes the width starts from the activated maps.
        shortcut = inputs if self.convShortcut is None else self.convShortcut(activated)
        outputs: Tensor = shortcut + residual
        return outputs


class WideStage(nn.Module):
    """A sequence of blocks, the first of which changes the shape."""

    def __init__(self, width_in: int, width: int, stride: int, blocks: int) -> None:
        super().__init__()
        self.layer = stage(WideBlock, width_in, width, stride, blocks)

    def forward(self, inputs: Tensor) -> Tensor:
        """Return the feature maps of the last block."""
        maps: Tensor = self.layer(inputs)
        return maps


class WideResNet(nn.Module):
    """WRN-`depth`-`width` for images in [0, 1], without channel normalisation.

    >>> sum(weights.numel() for weights in WideResNet(16, 1).parameters())
    175066
    """

    def __init__(self, depth: int = 28, width: int = 10, num_classes: int = 10) -> None:
        super().__init__()
        if depth < 10 or depth % 6 != 4:
            raise ValueError(f"the depth of a wide ResNet must be 6n + 4, e.g. 16, 28 or 40, got {depth}")
        blocks = (depth - 4) // 6
        self.conv1 = nn.Conv2d(3, 16, 3, 1, 1, bias=False)
        self.block1 = WideStage(16, 16 * width, 1, blocks)
        self.block2 = WideStage(16 * width, 32 * width, 2, blocks)
        self.block3 = WideStage(32 * width, 64 * width, 2, blocks)
        self.bn1 = nn.BatchNorm2d(64 * width)
        self.fc = nn.Linear(64 * width, num_classes)

    def forward(self, inputs: Tensor) -> Tensor:
        """Return logits for images in [0, 1], (batch, 3, 32, 32)."""
        maps = self.block3(self.block2(self.block1(self.conv1(inputs))))
        logits: Tensor = self.fc(F.relu(self.bn1(maps)).mean(dim=(2, 3)))
        return logits


@MODELS.register("wide_resnet")
def wide_resnet(*, weights: str | None = None, depth: int = 28, width: int = 10, num_classes: int = 10) -> WideResNet:
    """WRN-28-10, with weights such as RobustBench's `cifar10/corruptions/Standard.pt`; without weights, untrained."""
    return with_weights(lambda: WideResNet(depth, width, num_classes), weights=weights)
