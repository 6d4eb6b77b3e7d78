"""What a method changes, and the source values that it returns to."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from holdfast.blocks.comparing import differing
from holdfast.blocks.teacher import MovingAverage
from holdfast.state import Moving, Stateful, contents, named_modules_of, put_back, snapshot_of


class Sourced(Stateful, Moving):
    """A module with trained parameters that knows the source value of every tensor that it may change."""

    trained: list[nn.Parameter]

    def written(self) -> list[nn.Parameter]:
        """Return the trained parameters."""
        return self.trained

    def keep_origin(self) -> None:
        """Take the values of now for those of the source."""
        self._origin = {name: tensor.detach().clone() for name, tensor in self.moving().items()}

    @property
    def origin(self) -> Mapping[str, Tensor]:
        """The source values of every tensor in `moving`, by the same names."""
        return self._origin

    def moving(self) -> dict[str, Tensor]:
        """Return every tensor that adaptation may change, by name: trained parameters, teachers and all buffers."""
        named = named_modules_of(self)
        changing = set(map(id, contents(dict(named).values()).parameters))
        tensors: dict[int, tuple[str, Tensor]] = {}  # of which one may be in two modules
        for kind in ("_parameters", "_buffers"):
            for name, module in named:
                for key, tensor in getattr(module, kind).items():
                    if tensor is not None and (kind == "_buffers" or id(tensor) in changing):
                        tensors.setdefault(id(tensor), (f"{name}.{key}" if name else key, tensor))
        return dict(tensors.values())

    def tensors(self) -> dict[str, Tensor]:
        """Return every tensor that adaptation may change and that has a source value, by name."""
        moving = self.moving()
        return {name: moving[name] for name in self._origin}

    def changed(self) -> dict[str, Tensor]:
        """Return those that differ from their source values."""
        now = self.tensors()
        return {name: now[name] for name in differing(now, self._origin)}

    def source_weights(self) -> list[Tensor]:
        """Return the source values of the trained parameters, in their order."""
        names = {id(parameter): name for name, parameter in self.named_parameters()}
        return [self._origin[names[id(parameter)]] for parameter in self.trained]

    def source_values(self, network: nn.Module) -> dict[str, Tensor]:
        """Return the source values of the tensors of a network that may change, by their names in it."""
        now = self.moving()
        origin = {id(now[name]): source for name, source in self._origin.items()}
        named = [*network.named_parameters(), *network.named_buffers()]
        return {name: origin[id(tensor)] for name, tensor in named if id(tensor) in origin}

    @torch.no_grad()
    def set_moving(self, values: Mapping[str, Tensor]) -> None:
        """Set every moving tensor to the value given, or else to its source value."""
        moving = self.moving()
        for name, source in self._origin.items():
            moving[name].copy_(values.get(name, source))

    @torch.no_grad()
    def restore(self, mask: Callable[[Tensor, Tensor | None], Tensor]) -> None:
        """Return single weights to the source, where `mask(weight, last_gradient)` is true."""
        for name, parameter in self.named_parameters():
            if parameter.requires_grad:
                parameter.copy_(torch.where(mask(parameter, parameter.grad), self._origin[name], parameter))

    def with_teachers(self, students: Iterable[Tensor]) -> list[Tensor]:
        """Return trained parameters, and those of teachers that follow them."""
        teachers = (part for part in self.modules() if isinstance(part, MovingAverage))
        students = list(students)
        return [*students, *(weight for teacher in teachers for weight in teacher.following(students))]

    def snapshot(self) -> dict[str, Any]:
        """Return a copy of all that adaptation has changed: weights, statistics, optimiser and declared state."""
        return snapshot_of(self, self.changed(), kept=False)

    def return_to(self, snapshot: Mapping[str, Any]) -> None:
        """Return to a snapshot exactly; what fitting source data has left stays as it is now."""
        self.set_moving(snapshot["tensors"])
        put_back(self, snapshot["declared"])

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Sourced:
        super()._apply(fn, recurse)
        self._origin = {name: fn(tensor) for name, tensor in self._origin.items()}
        return self
