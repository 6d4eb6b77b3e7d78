"""torchvision's networks: run where it can be imported; elsewhere its absence is explained, which is tested here."""

from __future__ import annotations

import pytest
import torch

from holdfast.models import MODELS, Normalised


def importable() -> bool:
    try:
        import torchvision  # noqa: F401
    except (ImportError, RuntimeError):
        return False
    return True


@pytest.mark.skipif(not importable(), reason="torchvision cannot be imported next to this torch")
def test_a_network_comes_behind_its_normalisation() -> None:
    network = MODELS["torchvision"]("resnet18", weights=None)
    assert isinstance(network, Normalised)
    assert not network.training
    assert network(torch.rand(1, 3, 64, 64)).shape == (1, 1000)  # type: ignore[attr-defined]


@pytest.mark.skipif(importable(), reason="torchvision is there")
def test_absence_is_explained() -> None:
    with pytest.raises(ImportError, match="pip install torchvision"):
        MODELS["torchvision"]("resnet18", weights=None)
