"""Teachers: moving averages of a network that share its parameters that are not trained."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Generic, TypeVar

import torch
from torch import Tensor, nn

from holdfast.state import Moving

Network = TypeVar("Network", bound=nn.Module)


def copy_sharing_frozen(network: Network, moving: Iterable[nn.Parameter]) -> Network:
    """Return a copy with its own moving parameters and buffers; all other parameters are shared.

    >>> layer = nn.Linear(2, 2)
    >>> twin = copy_sharing_frozen(layer, [layer.bias])
    >>> twin.weight is layer.weight, twin.bias is layer.bias
    (True, False)
    """
    own = {id(parameter) for parameter in moving}
    shared = {id(parameter): parameter for parameter in network.parameters() if id(parameter) not in own}
    return copy.deepcopy(network, dict(shared))


class MovingAverage(Moving, Generic[Network]):
    """Follow the trained parameters of a student, θ_T ← m·θ_T + (1 − m)·θ_S (Tarvainen & Valpola, 2017).

    Buffers are separate and not averaged, as in the published implementations.
    """

    def __init__(self, student: Network, moving: Iterable[nn.Parameter], *, momentum: float) -> None:
        super().__init__()
        moving = list(moving)
        self.momentum = momentum
        self.network = copy_sharing_frozen(student, moving).requires_grad_(False)
        names = {id(parameter): name for name, parameter in student.named_parameters()}
        mine = dict(self.network.named_parameters())
        self._pairs = [(mine[names[id(parameter)]], parameter) for parameter in moving]

    def written(self) -> list[nn.Parameter]:
        """Return the teacher's parameters that follow the student's."""
        return [mine for mine, _ in self._pairs]

    def following(self, students: Iterable[Tensor]) -> list[nn.Parameter]:
        """Return the teacher's parameters that follow some of the student's."""
        wanted = {id(parameter) for parameter in students}
        return [mine for mine, student in self._pairs if id(student) in wanted]

    @torch.no_grad()
    def follow(self, momentum: float | None = None) -> None:
        """Move towards the student, with another momentum if there is one."""
        mine, students = tuple(zip(*self._pairs, strict=True))
        torch._foreach_lerp_(mine, students, 1 - (self.momentum if momentum is None else momentum))
