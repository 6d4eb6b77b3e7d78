"""What can change in modules: the one list behind savepoints and snapshots."""

from __future__ import annotations

import operator
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from holdfast.state.stateful import Stateful
from holdfast.state.tree import modules_of, named_modules_of

VALUES = operator.methodcaller("values")


class Moving(nn.Module):
    """A module that changes parameters, by training them or, as a teacher, by writing into them."""

    def written(self) -> Sequence[Tensor]:
        """Return these parameters."""
        raise NotImplementedError


@dataclass(frozen=True)
class Contents:
    """Everything in modules that can change while they run, as long as none of them comes or goes."""

    modules: list[nn.Module]
    declaring: list[Stateful]  # with the state that they declare
    moving: list[Moving]
    held: list[tuple[dict[str, Tensor | None], Collection[str]]]  # buffers by name, and which of them are constants

    @property
    def parameters(self) -> list[Tensor]:
        """The parameters that the modules say they change."""
        parameters: dict[int, Tensor] = {}
        for module in self.moving:
            for parameter in module.written():
                parameters[id(parameter)] = parameter
        return list(parameters.values())

    @property
    def buffers(self) -> list[Tensor]:
        """The buffers, without constants."""
        buffers: list[Tensor] = []
        for own, constants in self.held:
            for name, tensor in own.items():
                if tensor is not None and name not in constants:
                    buffers.append(tensor)
        return buffers

    @property
    def optimizers(self) -> list[torch.optim.Optimizer]:
        """The optimisers."""
        optimizers: list[torch.optim.Optimizer] = []
        for module in self.declaring:
            for value in vars(module).values():
                if isinstance(value, torch.optim.Optimizer):
                    optimizers.append(value)
        return optimizers


def contents(modules: Iterable[nn.Module]) -> Contents:
    """Return what can change in modules.

    Buffers of our own modules that are not saved are constants, and may be large: held-out source data.

    >>> counter = Stateful(); counter.add_state("seen", 0)
    >>> inside = contents([counter, nn.BatchNorm1d(2)])
    >>> len(inside.parameters), len(inside.buffers), inside.declaring == [counter]
    (0, 3, True)
    """
    inside = Contents(list(modules), [], [], [])
    for module in inside.modules:
        constants: Collection[str] = ()
        if isinstance(module, Stateful):
            inside.declaring.append(module)
            constants = vars(module)["_non_persistent_buffers_set"]
        if isinstance(module, Moving):
            inside.moving.append(module)
        inside.held.append((module._buffers, constants))
    return inside


class Inventory:
    """What can change in trees of modules, looked for again when a module has come or gone.

    >>> inventory, network = Inventory(), nn.Sequential(nn.Linear(2, 2))
    >>> first = inventory.of(network)
    >>> inventory.of(network) is first, len(inventory.of(network.append(nn.BatchNorm1d(2))).buffers)
    (True, 3)
    """

    def __init__(self) -> None:
        self._contents: Contents | None = None
        self._roots: tuple[nn.Module, ...] = ()
        self._inside: list[Any] = []  # of each module, its parts by name, and these parts as they were
        self._parts: list[tuple[nn.Module | None, ...]] = []

    def __reduce__(self) -> tuple[type[Inventory], tuple[()]]:
        return Inventory, ()  # copies of the modules are others

    def of(self, *roots: nn.Module) -> Contents:
        """Return what can change in these trees."""
        parts = [*map(tuple, map(VALUES, self._inside))]
        if self._contents is None or roots != self._roots or parts != self._parts:
            self._contents, self._roots = contents(modules_of(*roots)), roots
            self._inside = [module._modules for module in self._contents.modules]
            self._parts = [*map(tuple, map(VALUES, self._inside))]
        return self._contents


def declaring(module: nn.Module) -> list[tuple[str, Stateful]]:
    """Return the parts of a module that declare state, by name."""
    return [(name, part) for name, part in named_modules_of(module) if isinstance(part, Stateful)]
