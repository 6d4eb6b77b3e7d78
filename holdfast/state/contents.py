"""What can change in modules: the one list behind savepoints and snapshots."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from holdfast.state.stateful import Stateful
from holdfast.state.tree import named_modules_of


class Moving(nn.Module):
    """A module that changes parameters, by training them or, as a teacher, by writing into them."""

    def written(self) -> Sequence[Tensor]:
        """Return these parameters."""
        raise NotImplementedError


@dataclass(frozen=True)
class Contents:
    """Everything in modules that can change while they run."""

    parameters: Sequence[Tensor]  # that the modules say they change
    buffers: Sequence[Tensor]
    declaring: Sequence[Stateful]  # with the state that they declare
    optimizers: Sequence[torch.optim.Optimizer]


def contents(modules: Iterable[nn.Module]) -> Contents:
    """Return what can change in modules.

    Buffers of our own modules that are not saved are constants, and may be large: held-out source data.

    >>> counter = Stateful(); counter.add_state("seen", 0)
    >>> inside = contents([counter, nn.BatchNorm1d(2)])
    >>> len(inside.parameters), len(inside.buffers), inside.declaring == [counter]
    (0, 3, True)
    """
    parameters: dict[int, Tensor] = {}
    buffers: list[Tensor] = []
    declaring: list[Stateful] = []
    optimizers: list[torch.optim.Optimizer] = []
    for module in modules:
        own = vars(module)
        constant: Iterable[str] = ()
        if isinstance(module, Stateful):
            declaring.append(module)
            constant = own["_non_persistent_buffers_set"]
            for value in own.values():
                if isinstance(value, torch.optim.Optimizer):
                    optimizers.append(value)
        if isinstance(module, Moving):
            for parameter in module.written():
                parameters[id(parameter)] = parameter
        for name, tensor in own["_buffers"].items():
            if tensor is not None and name not in constant:
                buffers.append(tensor)
    return Contents([*parameters.values()], buffers, declaring, optimizers)


def declaring(module: nn.Module) -> list[tuple[str, Stateful]]:
    """Return the parts of a module that declare state, by name."""
    return [(name, part) for name, part in named_modules_of(module) if isinstance(part, Stateful)]
