"""Copies of a network that share its weights."""

from __future__ import annotations

import copy
from collections.abc import Iterable

from torch import Tensor, nn

from holdfast.models.classifier import Classifier

__all__ = ["sharing_copy", "unshare"]


def sharing_copy(model: Classifier) -> Classifier:
    """Return a copy in eval mode with the same parameters, not copies of them, and with buffers of its own.

    >>> from holdfast.models.tiny import tiny_resnet
    >>> network = Classifier(tiny_resnet())
    >>> copied = sharing_copy(network)
    >>> all(one is other for one, other in zip(network.parameters(), copied.parameters()))
    True
    """
    copied = copy.deepcopy(model, {id(parameter): parameter for parameter in model.parameters()}).eval()
    copied.samples_forwarded = 0
    return copied


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
