"""Copies of networks: nothing is shared but what is said to be."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from holdfast.model.adapt import adapt
from holdfast.models import Classifier, tiny_resnet
from holdfast.models.sharing import copies_of_empty, sharing_copy
from holdfast.testing.comparison import hooks_of


def containers(network: nn.Module) -> set[int]:
    """Return which containers the modules of a network hold, by identity."""
    return {id(value) for part in network.modules() for value in vars(part).values() if isinstance(value, (dict, set))}


@pytest.mark.parametrize("kind", ["network", "classifier", "adapted"])
def test_copies_have_their_own_containers(kind: str) -> None:
    network = tiny_resnet(widths=(8,))
    network.fc.register_forward_hook(lambda *_: None)
    if kind == "network":
        given: nn.Module = network
        copied = copy.deepcopy(network, copies_of_empty(network))
    elif kind == "classifier":
        given = Classifier(network)
        copied = sharing_copy(given)
    else:
        given = adapt(network, "tent")
        copied = copy.deepcopy(given)
    assert not containers(given) & containers(copied)
    handle = copied.register_forward_pre_hook(lambda *_: pytest.fail("a hook of the copy"))
    given(torch.rand(2, 3, 8, 8))
    handle.remove()
    assert hooks_of(copied) == hooks_of(given)
