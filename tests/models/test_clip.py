"""CLIP and SigLIP as classifiers: small random ones, no downloads; all methods, taps and the service take them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import pytest
import torch
from small_clip import save_clip
from torch import Tensor, nn

from holdfast.methods import METHODS
from holdfast.model.adapt import adapt
from holdfast.models import Classifier, load, preprocessing_of

transformers = pytest.importorskip("transformers")
pytestmark = pytest.mark.filterwarnings("ignore")  # raised by the library itself

NAMES = ["dog", "cat", "red_fox", "big dog"]
TEMPLATES = ["a photo of a {}.", "a sketch of the {}."]
MEAN, STD = torch.tensor([0.48, 0.46, 0.41])[:, None, None], torch.tensor([0.27, 0.26, 0.28])[:, None, None]


@pytest.fixture(scope="module", params=["clip", "siglip"])
def saved(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    folder = tmp_path_factory.mktemp(request.param)
    return folder, save_clip(folder, request.param)


@pytest.fixture(scope="module")
def network(saved: tuple[Path, Any]) -> nn.Module:
    return load(f"clip:{saved[0]}", class_names=NAMES, templates=TEMPLATES)


@pytest.fixture(scope="module")
def images() -> Tensor:
    return torch.rand(8, 3, 32, 32, generator=torch.Generator().manual_seed(0))


def test_the_logits_are_those_of_the_whole_model(saved: tuple[Path, Any], images: Tensor) -> None:
    folder, whole = saved
    network = load(f"clip:{folder}", class_names=NAMES, templates=["a photo of a {}."])
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    padding: Literal["max_length"] | bool = "max_length" if hasattr(whole, "logit_bias") else True
    texts = [f"a photo of a {name.replace('_', ' ')}." for name in NAMES]
    tokens = tokenizer(texts, padding=padding, max_length=16, return_tensors="pt")
    tokens.pop("token_type_ids", None)
    with torch.no_grad():
        expected = whole(**tokens, pixel_values=(images - MEAN) / STD).logits_per_image
        torch.testing.assert_close(network(images), expected, rtol=1e-4, atol=1e-4)


def test_templates_are_averaged_and_names_may_be_a_file(saved: tuple[Path, Any], tmp_path: Path) -> None:
    folder = saved[0]
    (tmp_path / "names.txt").write_text("\n".join(NAMES))
    single = [Classifier(load(f"clip:{folder}", class_names=NAMES, templates=[each])).head for each in TEMPLATES]
    both = Classifier(load(f"clip:{folder}", class_names=str(tmp_path / "names.txt"), templates=TEMPLATES)).head
    rows = [nn.functional.normalize(head.weight, dim=1) for head in [*single, both]]  # type: ignore[union-attr]
    torch.testing.assert_close(rows[2], nn.functional.normalize(rows[0] + rows[1], dim=1))
    assert not torch.allclose(rows[0], rows[1])


def test_it_is_a_classifier_with_a_linear_head(network: nn.Module) -> None:
    classifier = Classifier(network)
    assert (classifier.num_classes, classifier.input_spec.shape, classifier.normalisation) == (4, (3, 32, 32), "layer")
    assert isinstance(classifier.head, nn.Linear)
    assert [name[-8:] for name, _ in classifier.blocks()][:2] == ["layers.0", "layers.1"]
    prepared = preprocessing_of(network)
    assert prepared is not None
    assert (prepared.crop, prepared.interpolation) == ((32, 32), "bicubic")
    assert not any("text" in name for name, _ in network.named_parameters())  # only its embeddings are kept


@pytest.mark.parametrize("name", METHODS.names())
def test_every_method_adapts_it(name: str, network: nn.Module, images: Tensor) -> None:
    kind = METHODS[name]
    if kind.needs_batch_norm:
        with pytest.raises(ValueError, match="requires BatchNorm"):
            adapt(network, name)
        return
    options: dict[str, Any] = {"views": 2} if name == "cotta" else {}
    model = adapt(network, name, source=[images], **options)
    for batch in (images, images[:3], images[:1]):
        assert torch.isfinite(model(batch)).all()


def test_taps_follow_its_inputs(network: nn.Module, images: Tensor) -> None:
    source = [torch.rand(16, 3, 32, 32, generator=torch.Generator().manual_seed(seed)) for seed in (1, 2)]
    model = adapt(network, "anchor", source=source)
    plain = network(images)
    shifted = 0.3 * images + 0.6
    assert torch.equal(model.source_network(images), plain)
    for _ in range(5):
        logits = model(shifted)
    assert not torch.allclose(logits, network(shifted), atol=1e-3)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"class_names": ["dog"]}, "needs two class names and templates"),
        ({"class_names": NAMES, "templates": ["a photo"]}, r"templates with \{\}, got 4 names and \['a photo'\]"),
    ],
)
def test_mistakes_are_named(saved: tuple[Path, Any], options: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        load(f"clip:{saved[0]}", **options)


def test_other_networks_are_refused(tmp_path: Path) -> None:
    config = transformers.ViTConfig(
        hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=8, image_size=32
    )
    transformers.ViTModel(config).save_pretrained(tmp_path)
    with pytest.raises(ValueError, match=r"cannot be loaded|has no embeddings of text"):
        load(f"clip:{tmp_path}", class_names=NAMES)
