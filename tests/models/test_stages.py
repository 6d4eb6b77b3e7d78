"""Stages are what lies between stem and head, under whatever wrappers."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from holdfast.models import CifarResNet, Classifier, Normalised, digits_resnet, digits_vit, tiny_vit
from holdfast.models.tiny import tiny_amaut, tiny_resnet


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


def block_names(network: nn.Module) -> list[str]:
    return [name for name, _ in Classifier(network).blocks()]


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


def test_blocks_are_the_parts_of_the_stages() -> None:
    assert block_names(digits_resnet(trained=False)) == ["stages.0.0", "stages.1.0", "stages.2.0"]
    assert block_names(digits_vit(trained=False)) == [f"blocks.{index}" for index in range(4)]
    names = ["layer1.0", "layer2.0", "layer2.1", "layer3.0", "layer4.0"]
    assert block_names(WrittenLikeTorchvision((1, 2, 1, 1))) == names
    wrapped = Normalised(WrittenLikeTorchvision((1, 2, 1, 1)), [0.5] * 3, [0.5] * 3)
    assert block_names(wrapped) == [f"module.{name}" for name in names]


class Stage(nn.Module):
    """A stage of its own class, with blocks and a layer that reduces the maps before them."""

    def __init__(self, depth: int) -> None:
        super().__init__()
        self.reduce = nn.Conv2d(4, 4, 3, 2, 1)
        self.blocks = nn.Sequential(*(Residual(4, 4, 1) for _ in range(depth)))

    def forward(self, maps: Tensor) -> Tensor:
        reduced: Tensor = self.blocks(self.reduce(maps))
        return reduced


def test_blocks_inside_stages_of_their_own_class_are_found() -> None:
    head = (nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 10))
    network = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Sequential(Stage(2), Stage(1)), *head)
    assert block_names(network) == ["1.0.blocks.0", "1.0.blocks.1", "1.1.blocks.0"]


def test_blocks_beside_the_stem_are_found_in_networks_without_stages() -> None:
    assert stage_names(tiny_amaut()) == []
    assert block_names(tiny_amaut()) == ["backbone.tokenizer.stages.0", "backbone.layers.0"]


def test_a_single_block_is_one_and_a_plain_chain_has_none() -> None:
    assert block_names(tiny_resnet(widths=(8,))) == ["stages.0.0"]
    chain = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 10))
    assert block_names(chain) == []
    assert block_names(Normalised(chain, [0.5] * 3, [0.5] * 3)) == []
