"""A card: what `make_card` measures travels in a file, belongs to one network, and is as good as the samples."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from tapped_networks import classifier, inputs

import holdfast
from holdfast.anchor import Card, Reference, make_card, read_card
from holdfast.anchor.sites import MOST_SAMPLES
from holdfast.estimators.anchored import Anchored
from holdfast.models import tiny_resnet
from holdfast.models.normalised import Normalised
from holdfast.state import SavedStateError, write_state

NAMES = ("batch", "group", "vit", "no norm")


def card_of(name: str, seed: int = 1) -> Card:
    return make_card(classifier(name).module, [inputs(name, seed=seed)], example=inputs(name))


def same(one: Reference, other: Reference) -> bool:
    fields = zip(
        [part for moments in one.sites.values() for part in vars(moments).values()],
        [part for moments in other.sites.values() for part in vars(moments).values()],
        strict=True,
    )
    return (
        list(one.sites) == list(other.sites)
        and all(torch.equal(*pair) for pair in fields)
        and torch.equal(one.classes, other.classes)
        and torch.equal(one.class_shares, other.class_shares)
        and one.samples == other.samples
    )


@pytest.mark.parametrize("name", NAMES)
def test_a_card_is_read_as_it_was_written(name: str, tmp_path: Path) -> None:
    card = card_of(name)
    card.save(tmp_path / "card.safetensors")
    loaded = read_card(tmp_path / "card.safetensors")
    assert same(loaded.reference, card.reference)
    assert (loaded.weights, loaded.preprocessing) == (card.weights, card.preprocessing)
    assert (tmp_path / "card.safetensors").stat().st_size < 100_000


@pytest.mark.parametrize("name", NAMES)
def test_a_card_is_as_good_as_the_samples_to_the_bit(name: str, tmp_path: Path) -> None:
    card_of(name).save(tmp_path / "card.safetensors")
    network, example = classifier(name).module, inputs(name)
    by_card, by_samples = (
        holdfast.adapt(network, example=example, card=tmp_path / "card.safetensors"),
        holdfast.adapt(network, example=example, source=[inputs(name)]),
    )
    for seed in (2, 3):
        batch = 0.5 * inputs(name, seed=seed) + 0.3
        assert torch.equal(by_card(batch), by_samples(batch))
    assert not torch.equal(by_card(batch), by_card.source(batch))
    guards = [
        holdfast.guard(network, example=example, card=card_of(name)),
        holdfast.guard(network, example=example, source=[inputs(name)]),
    ]
    assert torch.equal(*(model(batch) for model in guards))


def test_a_card_says_whose_it_is_and_how_inputs_are_prepared() -> None:
    network, batch = tiny_resnet(widths=(8,)), torch.rand(8, 3, 16, 16)
    card = make_card(network, [batch])
    assert card.preprocessing == {}
    assert card.digest == make_card(network, [batch]).digest != replace(card, weights="other").digest
    stated = make_card(Normalised(network, mean=[0.5] * 3, std=[0.25] * 3), [batch]).preprocessing
    assert stated == {"mean": [0.5] * 3, "std": [0.25] * 3, "interpolation": "bilinear"}


def test_the_moments_of_a_card_reach_the_estimators(monkeypatch: pytest.MonkeyPatch) -> None:
    received: list[Reference] = []
    monkeypatch.setattr(Anchored, "refer_to", lambda _, reference: received.append(reference))
    card = make_card(tiny_resnet(), [torch.rand(8, 3, 32, 32)])
    holdfast.adapt(tiny_resnet(), card=card, estimator="anchored")
    assert received == [card.reference]


def test_labels_are_not_used_and_samples_beyond_a_thousand_are_not_read() -> None:
    network, batch = tiny_resnet(widths=(8,)), torch.rand(300, 3, 16, 16)
    plain = make_card(network, [batch])
    for labels in (torch.zeros(300), torch.arange(300)):
        assert same(make_card(network, [(batch, labels)]).reference, plain.reference)
    assert make_card(network, [batch] * 9).reference.samples == MOST_SAMPLES


def test_source_data_of_one_class_make_a_card_that_follows() -> None:
    network, batch = tiny_resnet(widths=(8,)), torch.rand(32, 3, 16, 16)
    one = batch[network(batch).argmax(1) == network(batch).argmax(1).mode().values]
    card = make_card(network, [one])
    assert len(card.reference.classes) == 1
    model = holdfast.adapt(network, card=card)
    assert torch.isfinite(model(0.5 * batch)).all()
    assert model.method.gauges()["shift"] > 0


def test_a_card_of_other_weights_or_another_architecture_is_refused() -> None:
    card = make_card(tiny_resnet(), [torch.rand(8, 3, 32, 32)])
    for other in (tiny_resnet(seed=1), tiny_resnet("group"), tiny_resnet(widths=(8,))):
        with pytest.raises(ValueError, match=r"the card belongs to a network with other weights \(\w{8}, here \w{8}\)"):
            holdfast.adapt(other, card=card)
        with pytest.raises(ValueError, match=r"make one for this network with holdfast\.make_card\(model, inputs\)"):
            holdfast.guard(other, card=card)
    assert holdfast.adapt(tiny_resnet(), card=card).method.referred


def test_a_card_with_layers_that_the_network_does_not_have_is_refused() -> None:
    network = tiny_resnet()
    card = make_card(network, [torch.rand(8, 3, 32, 32)])
    first, moments = next(iter(card.reference.sites.items()))
    for sites in ({"elsewhere": moments}, {list(card.reference.sites)[-1]: moments}):  # of 8 channels, not 16
        renamed = replace(card, reference=replace(card.reference, sites=sites))
        with pytest.raises(
            ValueError, match=r"has moments of a layer .* that this network does not have; make it again"
        ):
            holdfast.adapt(network, card=renamed)
    assert first == "norm"


def test_files_that_are_no_cards_are_refused_in_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"there is no card at .*missing.*; write one with `holdfast card"):
        read_card(tmp_path / "missing.safetensors")
    model = holdfast.adapt(tiny_resnet(), "tent")
    model.save(tmp_path / "model.safetensors")
    with pytest.raises(SavedStateError, match="is not a card; write one with `holdfast card MODEL DATA"):
        read_card(tmp_path / "model.safetensors")
    whole = tmp_path / "card.safetensors"
    make_card(tiny_resnet(), [torch.rand(8, 3, 32, 32)]).save(whole)
    content = bytearray(whole.read_bytes())
    content[-5] ^= 0xFF
    damaged = {"flipped": bytes(content), "cut": bytes(content[: len(content) // 2]), "text": b"a card", "empty": b""}
    for name, written in damaged.items():
        (tmp_path / name).write_bytes(written)
        with pytest.raises(SavedStateError, match="is damaged"):
            holdfast.adapt(tiny_resnet(), card=tmp_path / name)
    write_state(tmp_path / "bare", {"sites": {"norm": {"mean": torch.zeros(1)}}}, {"card": "x", "samples": 1})
    with pytest.raises(SavedStateError, match="is damaged"):
        read_card(tmp_path / "bare")
