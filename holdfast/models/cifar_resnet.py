"""The CIFAR ResNet of He et al. (CVPR 2016, section 4.2), for your own weights."""

from __future__ import annotations

from pathlib import Path

from torch import Tensor, nn
from torch.nn import functional as F

from holdfast.models.base import MODELS, with_weights
from holdfast.models.checkpoint import read_checkpoint
from holdfast.models.cifar_resnet18 import BasicBlock
from holdfast.models.normalised import Normalise
from holdfast.models.resnet import stage

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


class PaddedShortcut(nn.Module):
    """A shortcut without parameters: subsampled maps, padded with empty channels on each side."""

    def __init__(self, stride: int, channels: int) -> None:
        super().__init__()
        self.stride, self.channels = stride, channels

    def forward(self, inputs: Tensor) -> Tensor:
        """Return the feature maps, reduced by the stride."""
        return F.pad(inputs[:, :, :: self.stride, :: self.stride], (0, 0, 0, 0, self.channels, self.channels))


def cifar_block(width_in: int, width: int, stride: int) -> BasicBlock:
    """Return two 3×3 convolutions with such a shortcut."""
    return BasicBlock(width_in, width, stride, PaddedShortcut(stride, (width - width_in) // 2))


class CifarResNet(nn.Module):
    """The network of depth 6n + 2 with option A shortcuts and channel normalisation; load your own state dict.

    >>> sum(weights.numel() for weights in CifarResNet(20).parameters())
    269722
    """

    def __init__(self, depth: int = 20, num_classes: int = 10) -> None:
        super().__init__()
        if depth < 8 or depth % 6 != 2:
            raise ValueError(f"the depth of a CIFAR ResNet must be 6n + 2, e.g. 20, 32, 44 or 56, got {depth}")
        blocks = (depth - 2) // 6
        self.normalise = Normalise(MEAN, STD)
        self.conv1 = nn.Conv2d(3, 16, 3, 1, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(16)
        self.layer1 = stage(cifar_block, 16, 16, 1, blocks)
        self.layer2 = stage(cifar_block, 16, 32, 2, blocks)
        self.layer3 = stage(cifar_block, 32, 64, 2, blocks)
        self.fc = nn.Linear(64, num_classes)

    def forward(self, inputs: Tensor) -> Tensor:
        """Return logits for images in [0, 1], (batch, 3, 32, 32)."""
        maps = F.relu(self.bn1(self.conv1(self.normalise(inputs))))
        maps = self.layer3(self.layer2(self.layer1(maps)))
        logits: Tensor = self.fc(maps.mean(dim=(2, 3)))
        return logits

    @classmethod
    def from_file(cls, path: str | Path) -> CifarResNet:
        """Return the network of a safetensors file in eval mode; its weights determine depth and classes."""
        weights = read_checkpoint(path)
        if "fc.weight" not in weights:
            raise ValueError(f"{path} has no 'fc.weight'; name the weights as CifarResNet().state_dict() does")
        blocks = sum(name.startswith("layer1.") and name.endswith(".conv1.weight") for name in weights)
        network = with_weights(lambda: cls(6 * blocks + 2, len(weights["fc.weight"])))
        network.load_state_dict(weights)
        return network


@MODELS.register("cifar_resnet", alias="cifar_resnet20")
def cifar_resnet(*, weights: str | None = None, depth: int = 20, num_classes: int = 10) -> CifarResNet:
    """The CIFAR ResNet of your own safetensors file, whose weights determine depth and classes.

    Without weights, an untrained network of this depth, for `holdfast train`.
    """
    if weights is None:
        return with_weights(lambda: CifarResNet(depth, num_classes))
    return CifarResNet.from_file(weights)
