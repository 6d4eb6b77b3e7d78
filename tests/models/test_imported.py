"""Custom networks by their import path."""

from __future__ import annotations

import pytest
import torch

from holdfast.model.adapt import adapt
from holdfast.models import MODELS, imported


def test_a_function_by_its_import_path() -> None:
    network = imported(target="holdfast.models.tiny:tiny_resnet", arguments={"norm": "group", "num_classes": 4})
    assert adapt(network, "tent")(torch.rand(2, 3, 16, 16)).shape == (2, 4)
    assert "imported" in MODELS


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("torch.nn", "package.module:function"),
        ("torch.nn:Absent", "cannot be imported"),
        ("absent.module:f", "cannot be imported"),
        ("builtins:dict", "returned dict"),
    ],
)
def test_what_is_not_a_network_is_refused(target: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        imported(target=target)


def test_absent_weights_are_refused() -> None:
    with pytest.raises(ValueError, match="no weights at nowhere"):
        MODELS["cifar_resnet"](weights="nowhere")
