"""Networks for some of their classes: the logits of the others are masked, and every method finds the last layer."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import holdfast
from holdfast.models import Classifier, MaskedClasses, load, weights_digest, with_classes
from holdfast.models.tiny import tiny_resnet, tiny_vit


class Scaled(nn.Module):
    """A network whose last layer does not return the logits."""

    def __init__(self) -> None:
        super().__init__()
        self.module = tiny_resnet()

    def forward(self, inputs: Tensor) -> Tensor:
        logits: Tensor = self.module(inputs)
        return 2 * logits


@pytest.mark.parametrize("network", [tiny_resnet("batch"), tiny_resnet("group"), tiny_vit(), Scaled()])
def test_the_logits_are_those_of_the_chosen_classes(network: nn.Module) -> None:
    before, inputs = weights_digest(network), torch.rand(4, 3, 32, 32)
    chosen = with_classes(network.eval(), [9, 0, 4])
    torch.testing.assert_close(chosen(inputs), network(inputs)[:, [9, 0, 4]])
    assert weights_digest(network) == before
    assert Classifier(chosen).num_classes == 3
    assert isinstance(chosen, MaskedClasses) == isinstance(network, Scaled)
    assert (Classifier(chosen).head is None) == isinstance(network, Scaled)


@pytest.mark.parametrize("method", ["tent", "t3a", "neo", "blend", "lame"])
def test_methods_adapt_the_chosen_classes(method: str) -> None:
    model = holdfast.adapt(with_classes(tiny_resnet(), [1, 5, 6, 8]), method)
    assert model(torch.rand(8, 3, 32, 32)).shape == (8, 4)


def test_a_network_of_these_classes_is_returned_as_it_is() -> None:
    network = tiny_resnet()
    assert with_classes(network, range(10)) is network
    assert with_classes(network, range(1000)) is network


@pytest.mark.parametrize("indices", [[3, 3], [0, 10], [-1, 2]])
def test_indices_that_are_no_classes_are_refused(indices: list[int]) -> None:
    with pytest.raises(ValueError, match="different outputs from 0 to 9, got"):
        with_classes(tiny_resnet(), indices)


def test_a_subset_has_a_name_of_its_own() -> None:
    assert Classifier(load("class_subset", model="digits_resnet", indices=[3, 8])).num_classes == 2
