"""The public contracts of models: every registered one keeps them, made small where it is large; broken ones fail."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from small_clip import save_clip
from small_hubert import SMALL_HUBERT, save_hubert
from torch import Tensor, nn

from holdfast.models import AMAUT_VERSIONS, CONMIX_VERSIONS, MODELS, CifarResNet, CoNMixVersion, seeded_weights
from holdfast.models.tiny import TINY_AMAUT, tiny_resnet
from holdfast.records import InputSpec
from holdfast.testing import check_model

SMALL_CONMIX = CoNMixVersion(16_000, 16_000, 5, 81, 200, 64, (1, 1, 1), 16, 1, 2, 16, (16, 8))


def cifar_weights(folder: Path) -> dict[str, Any]:
    with seeded_weights(0):
        save_file(CifarResNet(8, 10).state_dict(), folder / "weights.safetensors")
    return {"weights": str(folder / "weights.safetensors")}


def hubert(_folder: Path) -> dict[str, Any]:
    pytest.importorskip("transformers")
    return {"version": "speech_commands", "config": SMALL_HUBERT}


def hugging_face(folder: Path) -> dict[str, Any]:
    save_hubert(folder)
    return {"model": str(folder), "seconds": 0.25}


def python_file(folder: Path) -> dict[str, Any]:
    (folder / "net.py").write_text("from holdfast.models.tiny import tiny_resnet as make\n")
    return {"target": f"{folder / 'net.py'}:make"}


def hub_folder(folder: Path) -> dict[str, Any]:
    (folder / "hubconf.py").write_text("from holdfast.models.tiny import tiny_resnet\n")
    return {"target": f"{folder}:tiny_resnet"}


def robustbench(_folder: Path) -> dict[str, Any]:
    pytest.skip("needs a downloaded checkpoint")


def clip(folder: Path) -> dict[str, Any]:
    pytest.importorskip("transformers")
    save_clip(folder, "clip")
    return {"model": str(folder), "class_names": ["dog", "cat", "red_fox"]}


# For each model a function that writes the files it needs and returns its options.
OPTIONS: dict[str, Callable[[Path], dict[str, Any]]] = {
    "amaut": lambda _: {"version": "speech_commands"},
    "cifar_resnet": cifar_weights,
    "cifar_resnet18": lambda _: {"widths": (8, 16)},
    "cifar_resnext": lambda _: {"depth": 11, "group_width": 4, "num_classes": 5},
    "clip": clip,
    "conmix": lambda _: {"version": "speech_commands"},
    "digits_resnet": lambda _: {},
    "digits_resnet_gn": lambda _: {},
    "digits_vit": lambda _: {},
    "efficientnet_lite0": lambda _: {},
    "efficientnet_lite1": lambda _: {},
    "efficientnet_lite2": lambda _: {},
    "file": python_file,
    "hf": hugging_face,
    "hub": hub_folder,
    "hubert": hubert,
    "hugging_face_audio": hugging_face,
    "class_subset": lambda _: {"model": "digits_resnet", "indices": [1, 7, 3]},
    "imported": lambda _: {"target": "holdfast.models.tiny:tiny_resnet"},
    "keywords_amaut": lambda _: {},
    "robustbench": robustbench,
    "small_amaut": lambda _: {"num_classes": 3},
    "small_conmix": lambda _: {"num_classes": 3},
    "small_hubert": lambda _: {"num_classes": 3, "seconds": 0.25},
    "timm": lambda _: {"architecture": "resnet10t", "pretrained": False, "arguments": {"num_classes": 5}},
    "torchvision": lambda _: {"architecture": "resnet18", "weights": None},
    "wide_resnet": lambda _: {"depth": 10, "width": 1},
}


@pytest.mark.parametrize("name", MODELS.names())
@pytest.mark.filterwarnings("ignore")  # of transformers
def test_every_model_keeps_the_contracts(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert name in OPTIONS, f"add the options that build {name!r} small to OPTIONS in {__file__}"
    if name == "amaut":
        monkeypatch.setitem(AMAUT_VERSIONS, "sc2", TINY_AMAUT)
    if name == "conmix":
        monkeypatch.setitem(CONMIX_VERSIONS, "sc2", SMALL_CONMIX)
    if name == "small_conmix":  # its front-end standardises the batch
        monkeypatch.setattr("holdfast.testing.models.TOLERANCE", 1e-3)
    options = OPTIONS[name](tmp_path)
    try:
        MODELS[name](**options)
    except ImportError as error:  # an extra that is not installed
        pytest.skip(str(error))
    check_model(name, **options)


@pytest.mark.parametrize("name", ["digits_resnet", "digits_resnet_gn", "digits_vit", "keywords_amaut"])
def test_untrained_networks_keep_the_contracts_too(name: str) -> None:
    check_model(name, trained=False)


class Broken(nn.Module):
    """Breaks one contract, by name."""

    def __init__(self, fault: str) -> None:
        super().__init__()
        self.fault = fault
        self.network = tiny_resnet()
        self.register_buffer("seen", torch.zeros(()))
        if fault == "weights":
            torch.nn.init.normal_(self.network.fc.weight)
        self.train(fault == "training")

    def forward(self, inputs: Tensor) -> Tensor:
        logits: Tensor = self.network(inputs)
        if self.fault == "shape":
            return logits[:1].expand(2, -1) if len(inputs) == 3 else logits
        if self.fault == "nan":
            return logits * torch.nan if len(inputs) == 3 else logits
        if self.fault == "counts":
            self.seen += 1
        if self.fault == "batch":
            return logits - logits.mean(0)
        if self.fault == "noise":
            return logits + torch.rand(())
        if self.fault == "inputs":
            inputs.mul_(0.5)
        return logits


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("weights", "draws from the global generator|different weights"),
        ("training", "in training mode; call"),
        ("shape", r"logits have shape \(2, 10\)"),
        ("nan", "not finite"),
        ("counts", "changes weights or buffers"),
        ("batch", "depend on its batch"),
        ("noise", "differ by up to|global generator"),
        ("inputs", "changes its inputs"),
    ],
)
def test_a_model_that_breaks_a_contract_is_caught(fault: str, words: str) -> None:
    inputs = torch.rand(3, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    check_model(Broken, inputs=inputs, fault="")
    with pytest.raises(AssertionError, match=words):
        check_model(Broken, inputs=inputs, fault=fault)


def test_a_network_that_misstates_its_inputs_is_caught() -> None:
    def build() -> nn.Module:
        network = tiny_resnet()
        network.input_spec = InputSpec("image", (3, 64, 64))
        return network

    inputs = torch.rand(2, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    with pytest.raises(AssertionError, match="but input_spec is"):
        check_model(build, inputs=inputs)
