"""T3A: prototypes of the most certain supports."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from holdfast.blocks.losses import entropy
from holdfast.methods.t3a import T3a
from holdfast.model.adapt import adapt
from holdfast.model.adapted import AdaptedModel

WIDTH, CLASSES = 6, 4


@pytest.fixture
def network() -> nn.Module:
    head = nn.Linear(WIDTH, CLASSES)
    generator = torch.Generator().manual_seed(3)
    head.weight = nn.Parameter(torch.randn(CLASSES, WIDTH, generator=generator) * 2)
    head.bias = nn.Parameter(torch.randn(CLASSES, generator=generator))
    return nn.Sequential(nn.Flatten(), head).eval()


@pytest.fixture
def batches() -> list[Tensor]:
    return list(torch.randn(5, 16, WIDTH, generator=torch.Generator().manual_seed(0)))


def build(network: nn.Module, batch: Tensor, **options: int | None) -> tuple[AdaptedModel, T3a]:
    model = adapt(network, "t3a", example=batch, **options)
    assert isinstance(model.method, T3a)
    return model, model.method


def predictions_by_hand(head: nn.Linear, batches: list[Tensor], supports_per_class: int | None) -> list[Tensor]:
    """The published algorithm with lists: (entropy, feature) of each class, cut after every batch."""
    kept: list[list[tuple[float, Tensor]]] = [[] for _ in range(CLASSES)]

    def add(features: Tensor) -> None:
        logits = head(features)
        for feature, label, uncertainty in zip(features, logits.argmax(1), entropy(logits), strict=True):
            kept[label].append((float(uncertainty), feature))

    add(head.weight)
    predictions = []
    for features in batches:
        add(features)
        kept = [sorted(members, key=lambda member: member[0])[:supports_per_class] for members in kept]
        sums = [sum((F.normalize(z, dim=0) for _, z in members), torch.zeros(WIDTH)) for members in kept]
        predictions.append(features @ F.normalize(torch.stack(sums), dim=1).T)
    return predictions


@pytest.mark.parametrize("supports_per_class", [1, 5, None])
def test_it_is_the_published_algorithm(
    network: nn.Module, batches: list[Tensor], supports_per_class: int | None
) -> None:
    model, method = build(network, batches[0], supports_per_class=supports_per_class)
    with torch.no_grad():
        expected = predictions_by_hand(network[1], batches, supports_per_class)
    for batch, prediction in zip(batches, expected, strict=True):
        torch.testing.assert_close(model(batch), prediction)
    assert len(method.supports) <= CLASSES * (supports_per_class or 1)  # all supports of a class are kept as one sum


def test_the_last_layer_itself_stays_and_the_export_has_the_prototypes(
    network: nn.Module, batches: list[Tensor]
) -> None:
    model, method = build(network, batches[0])
    model(batches[0])
    assert torch.equal(model.method.model.head.weight, network[1].weight)
    exported = model.export()
    assert not torch.equal(exported[1].weight, network[1].weight)
    assert not exported[1].bias.any()
    torch.testing.assert_close(exported[1].weight.norm(dim=1), torch.ones(CLASSES))
    method.pause()
    before = method.supports.clone()
    assert torch.equal(method.predict(batches[1]), exported(batches[1]))
    assert torch.equal(method.supports, before)


def test_a_convolution_may_be_the_last_layer(network: nn.Module, batches: list[Tensor]) -> None:
    convolution = nn.Conv2d(WIDTH, CLASSES, 1).requires_grad_(False)
    convolution.weight.copy_(network[1].weight.view_as(convolution.weight))
    convolution.bias.copy_(network[1].bias)
    convolutional = nn.Sequential(nn.Unflatten(1, (WIDTH, 1, 1)), convolution, nn.Flatten()).eval()
    (linear, _), (model, method) = (build(part, batches[0]) for part in (network, convolutional))
    torch.testing.assert_close(model(batches[0]), linear(batches[0]))
    method.pause()
    assert torch.equal(model.export()(batches[1]), method.predict(batches[1]))


def test_non_finite_logits_leave_no_support(network: nn.Module, batches: list[Tensor]) -> None:
    nn.init.constant_(network[1].weight, 2.0)
    batches[0][0, 0] = 3e38  # finite, but overflows in the last layer
    model, method = build(network, batches[0])
    model(batches[0])
    assert len(method.supports) == CLASSES


def test_what_cannot_work_is_refused_at_once(network: nn.Module, batches: list[Tensor]) -> None:
    with pytest.raises(ValueError, match="must be a whole number from 1 to"):
        build(network, batches[0], supports_per_class=0)
    with pytest.raises(ValueError, match="head="):
        build(nn.Sequential(nn.Linear(WIDTH, CLASSES), nn.ReLU()).eval(), batches[0])
