"""Small networks with every kind of layer that is tapped, for tests: how to build them, an input, the tapped layers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from holdfast.models.base import seeded_weights
from holdfast.models.classifier import Classifier
from holdfast.models.resnet import ChannelLayerNorm
from holdfast.models.tiny import tiny_resnet, tiny_vit

CLASSES = 5


@dataclass(frozen=True)
class Tapped:
    """How to build a network, the shape of one input, and how many of its layers have source moments."""

    build: Callable[[], nn.Module]
    sites: int
    shape: tuple[int, ...] = (3, 16, 16)
    sees_shifts: bool = True  # InstanceNorm gives each channel of each sample the same moments


def convnet(*layers: nn.Module) -> nn.Module:
    """Return a convolution to 8 channels, the layers, mean pooling and a head."""
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, 2, 1), *layers, nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, CLASSES)
    )


class OwnLayerNorm(nn.LayerNorm):
    """A subclass on channels-last maps, whose channels its type does not tell."""


class ChannelsLast(nn.Module):
    """Normalise (batch, channels, height, width) as (batch, height, width, channels)."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.norm = OwnLayerNorm(channels)

    def forward(self, maps: Tensor) -> Tensor:
        normalised: Tensor = self.norm(maps.movedim(1, -1)).movedim(-1, 1)
        return normalised


class Windows(nn.Module):
    """Fold the four quarters of an image into the batch, normalise them, and put them back."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm, self.fc = nn.Conv2d(3, 8, 3, padding=1), nn.GroupNorm(2, 8), nn.Linear(8, CLASSES)

    def forward(self, images: Tensor) -> Tensor:
        maps = self.conv(images)
        batch, channels, height, width = maps.shape
        parts = maps.unfold(2, height // 2, height // 2).unfold(3, width // 2, width // 2)
        folded = parts.permute(0, 2, 3, 1, 4, 5).reshape(batch * 4, channels, height // 2, width // 2)
        normalised = torch.relu(self.norm(folded))
        logits: Tensor = self.fc(normalised.mean((2, 3)).view(batch, 4, channels).mean(1))
        return logits


class Twice(nn.Module):
    """Call one layer on features of very different size."""

    def __init__(self, norm: nn.Module) -> None:
        super().__init__()
        self.conv, self.shared, self.own = nn.Conv2d(3, 8, 3), norm, nn.GroupNorm(2, 8)
        self.fc = nn.Linear(8, CLASSES)

    def forward(self, images: Tensor) -> Tensor:
        maps = self.own(self.conv(images))
        maps = torch.relu(self.shared(maps)) + torch.relu(self.shared(5 * maps + 3))
        logits: Tensor = self.fc(maps.mean((2, 3)))
        return logits


class Tokens(nn.Module):
    """A transformer encoder of torch over four patches; `constant` also normalises a learnt token."""

    def __init__(self, *, batch_first: bool = True, constant: bool = False) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=batch_first)
        self.encoder = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)
        self.batch_first, self.fc = batch_first, nn.Linear(8, CLASSES)
        self.patches = nn.Conv2d(3, 8, 8, 8)
        self.token = nn.Parameter(torch.randn(1, 1, 8)) if constant else None
        self.token_norm = nn.LayerNorm(8) if constant else None

    def forward(self, images: Tensor) -> Tensor:
        tokens = self.patches(images).flatten(2).transpose(1, 2)
        if self.token is not None and self.token_norm is not None:
            tokens = torch.cat([self.token_norm(self.token).expand(len(tokens), -1, -1), tokens], 1)
        if not self.batch_first:
            return self._classified(self.encoder(tokens.transpose(0, 1)).transpose(0, 1))
        return self._classified(self.encoder(tokens))

    def _classified(self, tokens: Tensor) -> Tensor:
        logits: Tensor = self.fc(tokens.mean(1))
        return logits


NETWORKS = {
    "batch": Tapped(lambda: tiny_resnet(num_classes=CLASSES), 6),
    "group": Tapped(lambda: tiny_resnet("group", CLASSES), 6),
    "layer, channels first": Tapped(lambda: tiny_resnet("layer", CLASSES), 6),
    "vit": Tapped(lambda: tiny_vit(CLASSES, 16), 5),
    "instance": Tapped(lambda: convnet(nn.InstanceNorm2d(8, affine=True)), 1, sees_shifts=False),
    "instance without affine": Tapped(
        lambda: convnet(nn.InstanceNorm2d(8), nn.ReLU(), nn.Conv2d(8, 8, 3)), 1, sees_shifts=False
    ),
    "instance with statistics": Tapped(lambda: convnet(nn.InstanceNorm2d(8, track_running_stats=True)), 1),
    "rms": Tapped(lambda: nn.Sequential(nn.Linear(12, 8), nn.RMSNorm(8), nn.ReLU(), nn.Linear(8, CLASSES)), 1, (12,)),
    "no norm": Tapped(lambda: convnet(nn.ReLU(), nn.Conv2d(8, 8, 3)), 2),
    "layer of maps": Tapped(lambda: convnet(nn.LayerNorm([8, 8, 8])), 1),
    "layer, as high as deep": Tapped(lambda: convnet(ChannelsLast(8)), 1),  # maps of 8 × 8, 8 channels
    "layer, as wide as deep": Tapped(lambda: convnet(ChannelLayerNorm(8)), 1),
    "mixed": Tapped(lambda: convnet(nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 8, 1), nn.GroupNorm(2, 8)), 2),
    "transformer encoder": Tapped(Tokens, 2),
    "time before batch": Tapped(lambda: Tokens(batch_first=False), 2),
    "constant token": Tapped(lambda: Tokens(constant=True), 3),
    "windows": Tapped(Windows, 1),
    "called twice": Tapped(lambda: Twice(nn.GroupNorm(2, 8)), 1),
    "batch norm called twice": Tapped(lambda: Twice(nn.BatchNorm2d(8)), 1),
}


def classifier(name: str) -> Classifier:
    """Return a network in eval mode, the same every time; stored statistics are those of other data."""
    given = NETWORKS[name]
    with seeded_weights(0):
        network = given.build().eval()
        for part in network.modules():
            for buffer_name, buffer in part.named_buffers(recurse=False):
                if buffer_name == "running_mean":
                    buffer.normal_(0, 0.1)
                if buffer_name == "running_var":
                    buffer.uniform_(0.5, 1.5)
    return Classifier(network, example=inputs(name, 2))


def inputs(name: str, samples: int = 48, seed: int = 1) -> Tensor:
    """Return inputs in [0, 1] that differ in brightness, the same every time."""
    draws = torch.Generator().manual_seed(seed)
    shape = NETWORKS[name].shape
    return torch.rand(samples, *[1] * len(shape), generator=draws) * torch.rand(samples, *shape, generator=draws)
