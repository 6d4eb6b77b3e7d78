"""The CIFAR ResNet reproduces recorded logits."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from holdfast.models import CifarResNet, weights_digest

GOLDEN = Path(__file__).resolve().parents[1] / "conformance" / "golden"  # the first four batches


def test_recorded_logits() -> None:
    network = CifarResNet.from_file(GOLDEN / "resnet20_cifar10.safetensors")
    with np.load(GOLDEN / "stream.npz") as stream, np.load(GOLDEN / "traces" / "source.npz") as trace:
        inputs = torch.from_numpy(stream["iid_x"]).permute(0, 3, 1, 2).float() / 255
        expected = torch.from_numpy(trace["iid_logits"])
    with torch.no_grad():
        logits = torch.cat([network(batch) for batch in inputs.split(64)])
    assert (logits - expected).abs().max() <= 1e-4


def test_depth_and_classes_are_read_off_the_file(tmp_path: Path) -> None:
    network = CifarResNet(14, num_classes=7)
    save_file(network.state_dict(), tmp_path / "weights.safetensors")
    loaded = CifarResNet.from_file(tmp_path / "weights.safetensors")
    assert not loaded.training
    assert weights_digest(loaded) == weights_digest(network)


def test_other_names_are_refused(tmp_path: Path) -> None:
    save_file({"module.fc.weight": torch.zeros(10, 64)}, tmp_path / "weights.safetensors")
    with pytest.raises(ValueError, match=r"has no 'fc\.weight'"):
        CifarResNet.from_file(tmp_path / "weights.safetensors")


@pytest.mark.parametrize("depth", [2, 18])
def test_impossible_depths_are_refused(depth: int) -> None:
    with pytest.raises(ValueError, match=f"must be 6n .*got {depth}"):
        CifarResNet(depth)
