"""Copies of a network: fast ones, and some that share its weights."""

from __future__ import annotations

import copy
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from torch import Tensor, nn

from holdfast.models.classifier import Classifier


def copies_of_empty(network: nn.Module) -> dict[int, Any]:
    """Return a memo for `copy.deepcopy` with copies of all empty containers in the modules of a network.

    A module has about ten of them, most for hooks: more work than the weights of a small network.

    >>> network = nn.Linear(2, 2)
    >>> copied = copy.deepcopy(network, copies_of_empty(network))
    >>> copied._forward_hooks == network._forward_hooks, copied._forward_hooks is network._forward_hooks
    (True, False)
    """
    return {
        id(value): type(value)()
        for part in network.modules()
        for value in vars(part).values()
        if type(value) in (OrderedDict, set) and not value
    }


def sharing_copy(model: Classifier) -> Classifier:
    """Return a copy in eval mode with the same parameters, not copies of them, and with buffers of its own.

    >>> from holdfast.models.tiny import tiny_resnet
    >>> network = Classifier(tiny_resnet())
    >>> copied = sharing_copy(network)
    >>> all(one is other for one, other in zip(network.parameters(), copied.parameters()))
    True
    """
    shared = {id(parameter): parameter for parameter in model.parameters()}
    copied = copy.deepcopy(model, {**copies_of_empty(model), **shared}).eval()
    copied.begin_as_copy(model)
    return copied


@contextmanager
def flags_as_given(copied: Classifier) -> Iterator[None]:
    """Let the weights of a copy require gradients as in the caller's network, which methods freeze in part.

    Torch multiplies some matrices another way if a weight requires a gradient, even where none is computed, and the sum
    then differs in its last bit (xcit and crossvit of timm).
    """
    given = zip(copied.parameters(), copied.trainable, strict=False)  # no flags are known of a network that is no copy
    changed = [parameter for parameter, wanted in given if parameter.requires_grad != wanted]
    for parameter in changed:
        parameter.requires_grad_(not parameter.requires_grad)
    try:
        yield
    finally:
        for parameter in changed:
            parameter.requires_grad_(not parameter.requires_grad)


def unshare(copied: nn.Module, moving: Iterable[Tensor]) -> None:
    """Give a copy its own, frozen values of the parameters that will change elsewhere."""
    own = {
        id(tensor): nn.Parameter(tensor.detach().clone(), False)
        for tensor in moving
        if isinstance(tensor, nn.Parameter)
    }
    for module in copied.modules():
        for name, parameter in list(module.named_parameters(recurse=False)):
            if id(parameter) in own:
                setattr(module, name, own[id(parameter)])
