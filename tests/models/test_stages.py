"""Stages are what lies between stem and head, under whatever wrappers."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from holdfast.models import CifarResNet, Classifier, Normalised, digits_resnet, digits_vit, tiny_vit


class Residual(nn.Module):
    def __init__(self, width_in: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(width_in, width, 3, stride, 1)
        self.bn1 = nn.BatchNorm2d(width)
        self.downsample = nn.Conv2d(width_in, width, 1, stride)

    def forward(self, inputs: Tensor) -> Tensor:
        return torch.relu(self.bn1(self.conv1(inputs)) + self.downsample(inputs))


class WrittenLikeTorchvision(nn.Module):
    """conv1, bn1, four layers of very different depth, fc."""

    def __init__(self, depths: tuple[int, int, int, int]) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 4, 7, 2, 3)
        self.bn1 = nn.BatchNorm2d(4)
        self.relu = nn.ReLU()
        for number, depth in enumerate(depths, start=1):
            blocks = (Residual(4, 4, 2 if block == 0 and number > 1 else 1) for block in range(depth))
            self.add_module(f"layer{number}", nn.Sequential(*blocks))
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(4, 10)

    def forward(self, inputs: Tensor) -> Tensor:
        maps = self.relu(self.bn1(self.conv1(inputs)))
        maps = self.layer4(self.layer3(self.layer2(self.layer1(maps))))
        logits: Tensor = self.fc(self.avgpool(maps).flatten(1))
        return logits


def stage_names(network: nn.Module) -> list[str]:
    return [name for name, _ in Classifier(network).stages()]


def test_reference_networks() -> None:
    assert stage_names(digits_resnet(trained=False)) == ["stages.0", "stages.1", "stages.2"]
    assert stage_names(digits_vit(trained=False)) == ["blocks.0", "blocks.1", "blocks.2", "blocks.3"]
    assert stage_names(tiny_vit()) == ["blocks.0", "blocks.1"]
    assert stage_names(CifarResNet(8)) == ["layer1", "layer2", "layer3"]


def test_a_deep_layer3_is_still_one_stage() -> None:
    assert stage_names(WrittenLikeTorchvision((1, 1, 1, 1))) == ["layer1", "layer2", "layer3", "layer4"]
    assert stage_names(WrittenLikeTorchvision((3, 8, 36, 3))) == ["layer1", "layer2", "layer3", "layer4"]


def test_wrappers_are_looked_through() -> None:
    network = Normalised(WrittenLikeTorchvision((1, 1, 1, 1)), [0.5] * 3, [0.5] * 3)
    names = [f"module.layer{number}" for number in (1, 2, 3, 4)]
    assert stage_names(network) == names
    assert [part for _, part in Classifier(network).stages()] == [network.get_submodule(name) for name in names]


def test_stem_and_head_with_several_layers_are_left_out() -> None:
    stem = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4))
    trunk = nn.Sequential(Residual(4, 4, 2), Residual(4, 4, 2))
    head = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.LayerNorm(4), nn.Linear(4, 10))
    assert stage_names(nn.Sequential(stem, trunk, head)) == ["1.0", "1.1"]


def test_a_plain_chain_has_no_stages() -> None:
    chain = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 10))
    assert stage_names(chain) == []
    assert stage_names(Normalised(chain, [0.5] * 3, [0.5] * 3)) == []
