"""The ResNet-18 for CIFAR of AETTA's tables, as its official code names the tensors."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from torch import Tensor, nn
from torch.nn import functional as F

from holdfast.models.base import MODELS, with_weights
from holdfast.models.checkpoint import load_checkpoint
from holdfast.models.normalised import Normalise
from holdfast.models.resnet import stage

# Mean and standard deviation of the channels, by the number of classes.
CIFAR10 = (0.4914, 0.4822, 0.4465), (0.2471, 0.2435, 0.2616)
CIFAR100 = (0.5071, 0.4865, 0.4409), (0.2673, 0.2564, 0.2762)


class BasicBlock(nn.Module):
    """Two 3×3 convolutions and a shortcut: the given one, or a 1×1 convolution if the shape changes."""

    def __init__(self, width_in: int, width: int, stride: int, shortcut: nn.Module | None = None) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(width_in, width, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        if shortcut is None and (stride > 1 or width_in != width):
            shortcut = nn.Sequential(nn.Conv2d(width_in, width, 1, stride, bias=False), nn.BatchNorm2d(width))
        self.shortcut = nn.Sequential() if shortcut is None else shortcut

    def forward(self, inputs: Tensor) -> Tensor:
        """Return the feature maps, reduced by the stride."""
        residual = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(inputs)))))
        return F.relu(residual + self.shortcut(inputs))


class CifarResNet18(nn.Module):
    """A ResNet-18 whose stem is a 3×3 convolution without pooling; `widths` makes smaller ones for tests.

    >>> sum(weights.numel() for weights in CifarResNet18(widths=(8, 16)).parameters())
    11122
    """

    def __init__(self, num_classes: int = 10, widths: Sequence[int] = (64, 128, 256, 512)) -> None:
        super().__init__()
        self.normalise = Normalise(*(CIFAR100 if num_classes == 100 else CIFAR10))
        self.conv1 = nn.Conv2d(3, widths[0], 3, 1, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(widths[0])
        shapes = [(widths[0], widths[0], 1), *((before, width, 2) for before, width in pairwise(widths))]
        self._stages = [f"layer{number}" for number in range(1, len(widths) + 1)]
        for name, (before, width, stride) in zip(self._stages, shapes, strict=True):
            self.add_module(name, stage(BasicBlock, before, width, stride, 2))
        self.fc = nn.Linear(widths[-1], num_classes)

    def forward(self, inputs: Tensor) -> Tensor:
        """Return logits for images in [0, 1], (batch, 3, 32, 32)."""
        maps = F.relu(self.bn1(self.conv1(self.normalise(inputs))))
        for name in self._stages:
            maps = self.get_submodule(name)(maps)
        logits: Tensor = self.fc(maps.mean(dim=(2, 3)))
        return logits


@MODELS.register("cifar_resnet18")
def cifar_resnet18(
    *, weights: str | None = None, num_classes: int = 10, widths: Sequence[int] = (64, 128, 256, 512)
) -> CifarResNet18:
    """The CIFAR ResNet-18 of AETTA, with weights that its official code has trained; without weights, untrained."""
    network = with_weights(lambda: CifarResNet18(num_classes, widths))
    # The official code puts a normalisation layer, with mu and sigma, before the network.
    return network if weights is None else load_checkpoint(network, weights, ignored=("mu", "sigma"))
