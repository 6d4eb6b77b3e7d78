"""Networks of your own by import path: any function that returns a network."""

from __future__ import annotations

import importlib
from typing import Any

from torch import nn

from holdfast.models.base import MODELS, seeded_weights
from holdfast.models.checkpoint import load_checkpoint


@MODELS.register("imported")
def imported(target: str, *, weights: str | None = None, arguments: dict[str, Any] | None = None) -> nn.Module:
    """The network that your own function returns: `imported:package.module:function`.

    >>> imported(target="torch.nn:Identity").training
    False
    """
    module, colon, name = target.partition(":")
    if not colon:
        raise ValueError(f"target={target!r} names no function; write package.module:function")
    try:
        build = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise ValueError(
            f"{target} cannot be imported ({error}); check the spelling and that it is installed"
        ) from error
    return built(target, build, weights, arguments)


def built(target: str, build: Any, weights: str | None, arguments: dict[str, Any] | None) -> nn.Module:
    """Return the network that a function makes, with weights from a file if one is given, in eval mode."""
    with seeded_weights(0):  # a network without weights from a file is the same in every build
        network = build(**(arguments or {}))
    if not isinstance(network, nn.Module):
        raise ValueError(f"{target} returned {type(network).__name__}; return a torch.nn.Module that returns logits")
    return network.eval() if weights is None else load_checkpoint(network, weights)
