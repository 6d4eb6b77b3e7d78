"""Measures of uncertainty that a method can minimise, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Literal, TypeAlias

from torch import Tensor

from holdfast.blocks.losses import entropy, opinion_entropy

Objective: TypeAlias = Literal["entropy", "come", "come_released"]

# Each maps logits to one value per sample, (batch,). The released code of COME has 1000 classes for any network.
OBJECTIVES: Mapping[str, Callable[[Tensor], Tensor]] = {
    "entropy": entropy,
    "come": opinion_entropy,
    "come_released": partial(opinion_entropy, doubt=1000),
}


def objective_named(name: Objective) -> Callable[[Tensor], Tensor]:
    """Return a measure of uncertainty, or raise a ValueError that names the known ones.

    >>> objective_named("come").__name__
    'opinion_entropy'
    """
    if name not in OBJECTIVES:
        raise ValueError(f"objective must be one of {', '.join(map(repr, OBJECTIVES))}, got {name!r}")
    return OBJECTIVES[name]
