"""Without source samples the default is the network itself, and says so once; with them it is quiet."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
from tapped_networks import classifier, inputs
from torch import Tensor

import holdfast
from holdfast.anchor import make_card
from holdfast.records import SetupWarning

NAMES = ("batch", "group", "vit", "no norm", "mixed")


def shifted(name: str) -> list[Tensor]:
    return [0.4 * inputs(name, 16, seed=seed) + 0.4 for seed in (2, 3)]


def built(name: str, method: str, **given: Any) -> tuple[holdfast.AdaptedModel, list[str]]:
    """Return a model, and what was warned of when it was built."""
    network = classifier(name).module
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        if method == "guard":
            model: holdfast.AdaptedModel = holdfast.guard(network, example=inputs(name), **given)
        else:
            model = holdfast.adapt(network, method, example=inputs(name), **given)
    return model, [str(entry.message) for entry in caught if issubclass(entry.category, SetupWarning)]


@pytest.mark.parametrize("name", NAMES)
def test_the_blend_returns_the_logits_of_the_network_to_the_bit(name: str) -> None:
    model, _ = built(name, "blend")
    network = classifier(name).module
    with torch.no_grad():
        for batch in shifted(name):
            assert torch.equal(model(batch), network(batch))
            assert torch.equal(model.predict(batch).logits, network(batch))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("options", [{}, {"method": "tent", "options": {"lr": 1.0}}], ids=["alone", "tent"])
def test_the_guard_returns_the_probabilities_of_the_network(name: str, options: dict[str, Any]) -> None:
    if options and name == "no norm":
        pytest.skip("tent has no weights to train, and says so")
    model = holdfast.guard(classifier(name).module, example=inputs(name), **options)
    network = classifier(name).module
    with torch.no_grad():
        for batch in shifted(name):
            logits, expected = model(batch), network(batch)
            assert torch.equal(logits.argmax(1), expected.argmax(1))
            torch.testing.assert_close(logits.softmax(1), expected.softmax(1), atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("name", ["group", "vit", "no norm"])
def test_the_anchor_without_stored_statistics_is_the_network_too(name: str) -> None:
    model, warned = built(name, "anchor")
    with torch.no_grad():
        for batch in shifted(name):
            assert torch.equal(model(batch), classifier(name)(batch))
    assert len(warned) == 1
    assert not built("batch", "anchor")[1]  # it follows from what BatchNorm stores


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("method", ["blend", "guard"])
def test_one_warning_names_what_to_pass_and_none_comes_when_it_is_passed(name: str, method: str) -> None:
    _, warned = built(name, method)
    assert len(warned) == 1
    assert "source=[" in warned[0]
    assert "card=" in warned[0]
    samples = inputs(name)
    card = make_card(classifier(name).module, [samples], example=samples)
    for given in ({"source": [samples]}, {"holdout": [samples]}, {"card": card}):
        model, warned = built(name, method, **given)
        assert not warned, given
        assert model.method.referred


@pytest.mark.parametrize("method", ["blend", "guard"])
def test_stored_statistics_serve_where_the_user_says_so(method: str) -> None:
    model, warned = built("batch", method, stored_reference=True)
    assert not warned
    batch = shifted("batch")[0]
    assert not torch.equal(model(batch).argmax(1), model.source(batch).argmax(1)) or not torch.allclose(
        model(batch).softmax(1), model.source(batch).softmax(1), atol=1e-3
    )
    _, warned = built("group", method, stored_reference=True)  # nothing is stored
    assert len(warned) == 1


@pytest.mark.parametrize("name", NAMES)
def test_with_source_samples_the_default_follows_a_shift(name: str) -> None:
    model, _ = built(name, "blend", source=[inputs(name)])
    for batch in shifted(name):
        logits = model(batch)
    assert not torch.allclose(logits.softmax(1), model.source(batch).softmax(1), atol=1e-4)
    assert torch.isfinite(logits).all()
