"""Networks of one's own in a suite: any function that returns one, by its import path."""

from __future__ import annotations

import importlib
from typing import Any

from torch import nn

from holdfast.models.base import MODELS

__all__ = ["imported"]


@MODELS.register("imported")
def imported(*, target: str, arguments: dict[str, Any] | None = None) -> nn.Module:
    """The network that a function of yours returns: `{name: imported, target: "package.module:function"}`.

    >>> imported(target="torch.nn:Identity").training
    False
    """
    place, colon, name = target.partition(":")
    if not colon:
        raise ValueError(f"target={target!r} names no function; write package.module:function")
    try:
        build = getattr(importlib.import_module(place), name)
    except (ImportError, AttributeError) as error:
        raise ValueError(
            f"{target} cannot be imported ({error}); check its spelling and that it is installed"
        ) from error
    network = build(**(arguments or {}))
    if not isinstance(network, nn.Module):
        raise ValueError(f"{target} returned {type(network).__name__}; return a torch.nn.Module that gives logits")
    return network.eval()
