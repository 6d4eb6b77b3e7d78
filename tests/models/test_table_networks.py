"""The networks of the published tables: parameters, tensor names, and checkpoints as they are downloaded."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from holdfast.models import CifarResNet, CifarResNet18, CifarResNeXt, WideResNet, load
from holdfast.models.wide_resnet import WideBlock

PUBLISHED: dict[str, tuple[Callable[[], nn.Module], int]] = {
    "WRN-28-10, CIFAR-10 (RobustBench Standard)": (WideResNet, 36_479_194),
    "ResNeXt-29 32x4d, CIFAR-100 (AugMix)": (CifarResNeXt, 6_900_132),
    "ResNet-18, CIFAR-10 (AETTA)": (CifarResNet18, 11_173_962),
    "ResNet-18, CIFAR-100 (AETTA)": (lambda: CifarResNet18(100), 11_220_132),
    "ResNet-20, CIFAR-10": (CifarResNet, 269_722),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_parameter_counts_are_the_published_ones(name: str) -> None:
    build, expected = PUBLISHED[name]
    with torch.device("meta"):
        assert sum(weights.numel() for weights in build().parameters()) == expected


@pytest.mark.parametrize(
    ("build", "names"),
    [
        (WideResNet, ["block1.layer.0.convShortcut.weight", "block3.layer.3.bn2.running_var", "bn1.bias", "fc.weight"]),
        (CifarResNeXt, ["conv_1_3x3.weight", "stage_2.0.downsample.1.weight", "stage_3.2.bn_expand.bias"]),
        (CifarResNet18, ["conv1.weight", "layer2.0.shortcut.0.weight", "layer4.1.bn2.running_mean", "fc.bias"]),
    ],
)
def test_tensors_are_named_as_in_the_official_code(build: Callable[[], nn.Module], names: list[str]) -> None:
    with torch.device("meta"):
        network = build()
    assert set(names) <= set(network.state_dict())
    assert not any(name.startswith("normalise") for name in network.state_dict())


SMALL: dict[str, dict[str, Any]] = {
    "wide_resnet": {"depth": 10, "width": 1},
    "cifar_resnext": {"depth": 11, "group_width": 4, "num_classes": 5},
    "cifar_resnet18": {"widths": [8, 16]},
}


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("prefix", ["", "module.", "module.model.", "1."])
def test_checkpoints_load_as_they_are_downloaded(name: str, prefix: str, tmp_path: Path) -> None:
    source = load(name, **SMALL[name])
    with torch.no_grad():
        for weights in source.parameters():
            weights.mul_(1.5)
    content = {f"{prefix}{key}": value for key, value in source.state_dict().items()}
    if name != "wide_resnet":
        content |= {"0.mu": torch.zeros(3, 1, 1), "0.sigma": torch.ones(3, 1, 1)}
    torch.save({"state_dict": content}, tmp_path / "net.pt")
    loaded = load(name, weights=str(tmp_path / "net.pt"), **SMALL[name])
    inputs = torch.rand(2, 3, 32, 32)
    assert torch.equal(loaded(inputs), source(inputs))
    with pytest.raises(ValueError, match="does not fit"):
        load(name, weights=str(tmp_path / "net.pt"), **{**SMALL[name], "num_classes": 7})


def test_a_shortcut_that_changes_the_width_starts_from_the_activation() -> None:
    inputs = torch.randn(2, 4, 6, 6)
    for width in (4, 8):
        block = WideBlock(4, width, 1).eval()
        activated = F.relu(block.bn1(inputs))
        residual = block.conv2(F.relu(block.bn2(block.conv1(activated))))
        shortcut = inputs if block.convShortcut is None else block.convShortcut(activated)
        assert torch.allclose(block(inputs), residual + shortcut)
        assert (block.convShortcut is None) == (width == 4)


def test_pixels_are_normalised_as_when_the_weights_were_trained() -> None:
    ten, hundred = CifarResNet18(10, (8,)), CifarResNet18(100, (8,))
    assert ten.normalise.std.flatten().tolist() == pytest.approx([0.2471, 0.2435, 0.2616])
    assert hundred.normalise.mean.flatten().tolist() == pytest.approx([0.5071, 0.4865, 0.4409])
    assert CifarResNeXt(11, 4, 4, 5).normalise(torch.ones(1, 3, 1, 1)).flatten().tolist() == [1, 1, 1]


@pytest.mark.parametrize(("build", "depth"), [(WideResNet, 27), (CifarResNeXt, 28)])
def test_impossible_depths_are_refused(build: Callable[[int], nn.Module], depth: int) -> None:
    with pytest.raises(ValueError, match=f"got {depth}"):
        build(depth)
