"""Snapshots: the state of modules at one moment, to return to."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from holdfast.state.contents import Contents, declaring
from holdfast.state.stateful import Stateful
from holdfast.state.tree import containers, copied

VERSION = operator.attrgetter("_version")  # of a tensor: how often it was written into


class Copies:
    """Copies of tensors that are written in place; their memory is used again, and an unchanged buffer is not copied.

    >>> weight = torch.ones(2)
    >>> copies = Copies(); kept = copies.take([weight], changed_only=False)
    >>> _ = weight.zero_(); kept[0][1]
    tensor([1., 1.])
    """

    def __init__(self) -> None:
        self._known: dict[bool, list[list[Any]]] = {}  # tensors, their versions when they were copied, and the copies

    @torch.no_grad()
    def take(self, tensors: list[Tensor], *, changed_only: bool) -> list[tuple[Tensor, Tensor]]:
        """Return each tensor with a copy of its values."""
        known, versions, copies = self._known.get(changed_only, ([], [], []))
        if len(tensors) != len(known) or not all(map(operator.is_, tensors, known)):
            before = dict(zip(map(id, known), zip(versions, copies, strict=True), strict=True))
            versions, copies = [], []
            for tensor in tensors:
                version, copied = before.get(id(tensor)) or (tensor._version, tensor.detach().clone())
                versions.append(version)
                copies.append(copied)
        now = [*map(VERSION, tensors)]
        stale: list[Any] = list(zip(copies, tensors, strict=True))
        if changed_only:
            stale = list(itertools.compress(stale, map(operator.ne, versions, now)))
        if stale:
            targets, sources = zip(*stale, strict=True)
            torch._foreach_copy_(targets, sources)
        self._known[changed_only] = [tensors, now, copies]
        return list(zip(tensors, copies, strict=True))


class Savepoint:
    """The state of modules at one moment by reference: attributes, and the `contents` of the modules.

    What is replaced is kept by reference, and only what is written into is copied, so that it costs little. Gradients
    are not part of it: they are dropped when the state is put back. The attributes of modules that are not `Stateful`,
    such as the layers of a network, are kept by reference: what a layer appends to a list stays there.
    """

    def __init__(self, inside: Contents, copies: Copies | None = None) -> None:
        optimizers = inside.optimizers
        self._attributes = [(own, own.copy()) for own in map(vars, (*inside.modules, *optimizers))]
        self._parameters = inside.parameters
        self._overwritten: list[tuple[Stateful, int | None]] = []
        held: list[Any] = []
        declared: list[Any] = []
        written = [*self._parameters]
        for buffers, _ in inside.held:
            if buffers:
                held.append(buffers)
        for module in inside.declaring:
            if module.writes_rows:
                self._overwritten.append((module, module.remember_rows()))
            own = vars(module)
            for name in module.state_defaults:
                declared.append(own[name])
        for optimizer in optimizers:
            held += [optimizer.state, *optimizer.state.values(), *optimizer.param_groups]
            for moments in optimizer.state.values():
                written += filter(torch.is_tensor, moments.values())
        self._containers = [(part, part.copy()) for part in held + containers(declared)]
        copies = Copies() if copies is None else copies
        self._tensors = copies.take(written, changed_only=False)
        self._tensors += copies.take(inside.buffers, changed_only=True)

    @torch.no_grad()
    def restore(self) -> None:
        """Put the state back."""
        for module, rows in self._overwritten:
            module.write_back(rows or 0)
        for attributes, before in self._attributes:
            attributes.clear()
            attributes.update(before)
        for container, content in self._containers:
            container.clear()
            container.extend(content) if isinstance(container, list) else container.update(content)
        if self._tensors:
            tensors, copied = zip(*self._tensors, strict=True)
            torch._foreach_copy_(tensors, copied)
        for weight in self._parameters:
            weight.grad = None

    def release(self) -> None:
        """Stop keeping rows that are overwritten: this state is not returned to any more."""
        for module, rows in self._overwritten:
            if rows is None:  # it began here
                module.forget_rows()


def state_of(module: nn.Module, tensors: Mapping[str, Tensor], *, kept: bool) -> dict[str, Any]:
    """Return the state of a module by name: tensors, and the declared state of its parts, all of it by reference.

    It is made of nested lists and dicts, so that it can itself be declared, saved and digested, and be put into another
    copy of the module. `kept` says whether what survives a reset is part of it.
    """
    declared = {}
    for name, part in declaring(module):
        state = part.state_now()
        for key in () if kept else part.kept_state:
            del state[key]
        declared[name] = state
    return {"tensors": tensors, "declared": declared}


def snapshot_of(module: nn.Module, tensors: Mapping[str, Tensor], *, kept: bool) -> dict[str, Any]:
    """Return a copy of the state of a module at one moment."""
    return dict(copied(state_of(module, tensors, kept=kept)))


def put_back(module: nn.Module, declared: Mapping[str, Mapping[str, Any]]) -> None:
    """Return the declared state of all parts of a module to that of a snapshot; what is not in it stays as it is."""
    for name, part in declaring(module):
        part.set_extra_state({**{kept: getattr(part, kept) for kept in part.kept_state}, **declared[name]})
