"""Source data as people pass them: what is no list of batches is refused in one sentence, and the rest is used."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import holdfast
from holdfast.anchor import MOST_SAMPLES, make_card
from holdfast.records import SetupWarning

IMAGES = torch.rand(48, 3, 16, 16, generator=torch.Generator().manual_seed(0))
LABELLED = TensorDataset(IMAGES, torch.zeros(48, dtype=torch.long))


def network(norm: nn.Module | None = None) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 8, 3),
        norm or nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(8, 4),
    ).eval()


def warned(build: Callable[[], holdfast.AdaptedModel]) -> tuple[holdfast.AdaptedModel, list[str]]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = build()
    return model, [str(entry.message) for entry in caught if issubclass(entry.category, SetupWarning)]


WRONG = {
    "a tensor": (IMAGES, "come in batches"),
    "images": (list(IMAGES), "come in batches"),
    "a data set": (LABELLED, "come in batches.*DataLoader"),
    "a path": ("train", "list of batches, or a loader of them, got str"),
    "a number": (3, "list of batches, or a loader of them, got int"),
    "a mapping": ({"image": IMAGES}, "list of batches, or a loader of them, got dict"),
    "arrays": ([IMAGES.numpy()], "holds ndarray instead of tensors"),
    "views": ([([IMAGES, IMAGES], LABELLED.tensors[1])], "holds list instead of tensors"),
    "nothing": ([None], "holds NoneType instead of tensors"),
    "no sample": ([IMAGES[:0]], "hold no sample"),
    "grey images": ([IMAGES[:, :1]], "cannot take the source samples: inputs have 1 channels"),
    "no finite sample": ([IMAGES * torch.nan], "no source samples with finite values"),
}


@pytest.mark.parametrize("given", ["source", "holdout"])
@pytest.mark.parametrize("name", WRONG)
def test_what_is_no_batch_is_refused_in_one_sentence(name: str, given: str) -> None:
    data, said = WRONG[name]
    options: dict[str, Any] = {given: data}
    with pytest.raises((ValueError, TypeError), match=said):
        holdfast.adapt(network(), **options)


def test_a_card_refuses_single_images_too() -> None:
    with pytest.raises(ValueError, match="come in batches"):
        make_card(network(), list(IMAGES))


def test_loaders_of_a_data_set_are_used() -> None:
    expected = holdfast.adapt(network(), source=[IMAGES])(0.5 * IMAGES)
    for loader in (DataLoader(LABELLED, 48), DataLoader(TensorDataset(IMAGES), 48)):
        assert torch.equal(holdfast.adapt(network(), source=loader)(0.5 * IMAGES), expected)


def test_a_sample_that_is_not_finite_is_left_out() -> None:
    broken = torch.cat([IMAGES, torch.full((1, 3, 16, 16), torch.nan)])
    model, said = warned(lambda: holdfast.adapt(network(), source=[broken]))
    assert not said
    assert torch.equal(model(0.5 * IMAGES), holdfast.adapt(network(), source=[IMAGES])(0.5 * IMAGES))


@pytest.mark.parametrize("build", [holdfast.adapt, holdfast.guard])
def test_of_a_long_loader_only_the_first_batches_are_read(build: Any) -> None:
    read: list[int] = []

    def endless() -> Iterator[Tensor]:
        while True:
            read.append(1)
            yield IMAGES

    assert build(network(), source=endless()).method.referred
    assert len(read) == -(-MOST_SAMPLES // len(IMAGES))


def test_source_batches_show_the_size_of_the_inputs_where_it_is_not_found() -> None:
    odd = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 14 * 14, 4)).eval()
    with pytest.raises(ValueError, match="does not accept any of the sizes tried"):
        holdfast.adapt(odd)
    model = holdfast.adapt(odd, source=[IMAGES])
    assert model.method.model.input_spec.shape == (3, 16, 16)
    assert model.method.referred


class Recurrent(nn.Module):
    """A recurrent layer, which is not followed, and a head."""

    def __init__(self) -> None:
        super().__init__()
        self.rnn, self.head = nn.GRU(48, 8, batch_first=True), nn.Linear(8, 4)

    def forward(self, images: Tensor) -> Tensor:
        logits: Tensor = self.head(self.rnn(images.permute(0, 2, 1, 3).flatten(2))[0][:, -1])
        return logits


class Shared(nn.Module):
    """One normalisation layer that every pass calls twice."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.norm, self.head = nn.Conv2d(3, 8, 3), nn.GroupNorm(2, 8), nn.Linear(8, 4)

    def forward(self, images: Tensor) -> Tensor:
        logits: Tensor = self.head(self.norm(self.norm(self.stem(images)).relu()).mean((2, 3)))
        return logits


@pytest.mark.parametrize("build", [Recurrent, Shared, lambda: network(nn.BatchNorm2d(8, track_running_stats=False))])
@pytest.mark.parametrize("adapting", [holdfast.adapt, holdfast.guard])
def test_a_network_that_cannot_be_followed_is_served_as_it_is_and_that_is_said(build: Any, adapting: Any) -> None:
    net = build().eval()
    model, said = warned(lambda: adapting(net, source=[IMAGES], example=IMAGES))
    assert len(said) == 1
    assert "finds no layer of" in said[0]
    with torch.no_grad():
        torch.testing.assert_close(model(IMAGES).softmax(1), net(IMAGES).softmax(1), atol=1e-6, rtol=1e-5)


def test_instance_norm_alone_sees_no_shift_and_that_is_said() -> None:
    _, said = warned(lambda: holdfast.adapt(network(nn.InstanceNorm2d(8, affine=True)), source=[IMAGES]))
    assert len(said) == 1
    assert "sees no shift" in said[0]
    for norm in (nn.InstanceNorm2d(8, track_running_stats=True), nn.GroupNorm(2, 8)):
        assert not warned(lambda norm=norm: holdfast.adapt(network(norm), source=[IMAGES]))[1]  # type: ignore[misc]
