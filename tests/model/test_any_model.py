"""Every method on many kinds of models: few and many classes, single samples, half precision, compiled."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from holdfast.methods import METHODS
from holdfast.model.adapt import adapt
from holdfast.model.adapted import AdaptedModel
from holdfast.models.classifier import main_normalisation
from holdfast.models.tiny import tiny_resnet, tiny_vit
from holdfast.recipes import recipe_names, recipe_of

GENERATOR = torch.Generator().manual_seed(0)
BATCHES = [torch.rand(8, 3, 16, 16, generator=GENERATOR) for _ in range(3)]


def build(name: str, network: torch.nn.Module, batches: list[Tensor] = BATCHES) -> AdaptedModel:
    if METHODS[recipe_of(name).method].needs_batch_norm and main_normalisation(network) != "batch":
        pytest.skip("needs BatchNorm, and says so")
    return adapt(network, name, source=batches, example=batches[0])


def in_turn(*choices: object) -> list[Any]:
    """Pair every recipe with every choice; by default each recipe has one of them, in turn."""
    return [
        pytest.param(name, choice, marks=[] if row % len(choices) == column else [pytest.mark.slow])
        for row, name in enumerate(recipe_names())
        for column, choice in enumerate(choices)
    ]


def some(*chosen: str) -> list[Any]:
    """Return every recipe; by default the chosen ones alone are run."""
    return [pytest.param(name, marks=[] if name in chosen else [pytest.mark.slow]) for name in recipe_names()]


@pytest.mark.parametrize(("name", "classes"), in_turn(2, 1000))
def test_two_and_a_thousand_classes(name: str, classes: int) -> None:
    model = build(name, tiny_resnet(num_classes=classes, widths=(8,)))
    for batch in BATCHES:
        logits = model(batch)
        assert logits.shape == (8, classes)
        assert torch.isfinite(logits).all()


@pytest.mark.parametrize("name", recipe_names())
def test_one_class_and_one_input_at_a_time(name: str) -> None:
    model = build(name, tiny_resnet(widths=(8,)))
    same = BATCHES[0][:1].expand(8, -1, -1, -1)
    for _ in range(4):
        assert torch.isfinite(model(same)).all()
    assert all(torch.isfinite(tensor).all() for tensor in model.method.moving().values())


@pytest.mark.parametrize("name", recipe_names())
def test_a_vision_transformer(name: str) -> None:
    model = build(name, tiny_vit(size=16))
    for batch in BATCHES:
        assert torch.isfinite(model(batch)).all()


@pytest.mark.parametrize(("name", "norm"), in_turn("layer", "batch"))
def test_bfloat16(name: str, norm: str) -> None:
    batches = [batch.bfloat16() for batch in BATCHES]
    model = build(name, tiny_resnet(norm, widths=(8,)).bfloat16(), batches)
    for batch in batches:
        logits = model(batch)
        assert logits.dtype == torch.bfloat16
        assert torch.isfinite(logits).all()


# Compiled networks are unwrapped before any method sees them: one method of each kind is compared by default.
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of torch.compile itself
@pytest.mark.parametrize("name", some("tent", "cotta", "note", "guard"))
def test_a_compiled_model_is_adapted_like_the_model_behind_it(name: str) -> None:
    network = tiny_resnet(widths=(8,))
    plain, compiled = build(name, network), build(name, torch.compile(network))
    for batch in BATCHES[:2]:
        assert torch.equal(plain(batch), compiled(batch))


@pytest.mark.parametrize("name", ["tent", "cotta"])
def test_permuted_images_do_not_crash_a_network_with_group_norm(name: str) -> None:
    inputs = torch.rand(4, 32, 32, 3, generator=torch.Generator().manual_seed(0)).permute(0, 3, 1, 2)
    options = {"views": 2} if name == "cotta" else {}
    permuted, plain = (adapt(tiny_resnet("group"), name, **options) for _ in range(2))
    for _ in range(2):
        torch.testing.assert_close(permuted(inputs), plain(inputs.contiguous()))
