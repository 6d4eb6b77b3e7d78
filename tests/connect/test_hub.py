"""Push to a Hub at a loopback address with the real client, load from it, from its cache, and from a folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import holdfast
from holdfast.model.adapted import AdaptedModel

pytest.importorskip("huggingface_hub")


@pytest.fixture(autouse=True)
def _no_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Keep the cache and the token of whoever runs the tests out of them."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("huggingface_hub.constants.HF_TOKEN_PATH", str(tmp_path / "no-token"))


@pytest.fixture
def model(network: nn.Module, batches: Tensor) -> AdaptedModel:
    model = holdfast.adapt(network, "tent")
    model.step(batches[0])
    return model


def test_what_is_pushed_can_be_loaded_online_and_offline(
    local_hub: Any,
    model: AdaptedModel,
    network: nn.Module,
    batches: Tensor,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    url = holdfast.push_to_hub(model, "me/north", weights=True, token="hf_secret", private=True)
    assert "/me/north/commit/" in url
    files = local_hub.repositories["me/north"]
    assert sorted(files) == ["README.md", "adaptation.safetensors", "config.json", "model.safetensors"]
    assert (local_hub.private["me/north"], local_hub.tokens) == (True, {"Bearer hf_secret"})
    files["run_me.py"] = b"raise SystemExit"  # not ours, so not downloaded

    loaded = holdfast.from_hub("me/north", network, cache_dir=tmp_path / "cache")
    assert isinstance(loaded, AdaptedModel)
    assert loaded.digest() == model.digest()
    assert not list((tmp_path / "cache").rglob("run_me.py"))

    local_hub.repositories.clear()
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    again = holdfast.from_hub("me/north", network, cache_dir=tmp_path / "cache")
    assert isinstance(again, AdaptedModel)
    assert torch.equal(again(batches[1]), model(batches[1]))
    with pytest.raises(FileNotFoundError, match="me/south is neither a folder nor in the cache"):
        holdfast.from_hub("me/south", network, cache_dir=tmp_path / "cache")


def test_a_card_and_a_recipe_go_to_repositories_too(local_hub: Any, network: nn.Module, batches: Tensor) -> None:
    card = holdfast.make_card(network, list(batches))
    holdfast.push_to_hub(card, "me/moments", commit_message="Measure again")
    holdfast.push_to_hub("rdumb", "me/resets", network="digits_resnet")
    assert local_hub.messages == ["Measure again", "Push with holdfast"]
    loaded = holdfast.from_hub("me/moments")
    assert isinstance(loaded, holdfast.Card)
    assert loaded.digest == card.digest
    built = holdfast.from_hub("me/resets")
    assert isinstance(built, AdaptedModel)
    assert built.name == "rdumb"


def test_offline_nothing_is_pushed(local_hub: Any, model: AdaptedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(ConnectionError):
        holdfast.push_to_hub(model, "me/north")
    assert local_hub.repositories == {}


def test_the_library_validates_the_model_card(model: AdaptedModel, tmp_path: Path) -> None:
    from huggingface_hub import ModelCard

    holdfast.connect.write_folder(model, tmp_path, network="timm:resnet18.a1_in1k", repo_id="me/north")
    card = ModelCard.load(tmp_path / "README.md")
    assert card.data.library_name == "holdfast"
    assert card.data.base_model == "timm/resnet18.a1_in1k"
    assert card.data.pipeline_tag == "image-classification"
    assert "test-time-adaptation" in card.data.tags
    assert 'holdfast.from_hub("me/north")' in card.text
    assert model.digest() in card.text
